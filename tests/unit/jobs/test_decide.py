"""The decision as a table. `pytest -s` prints it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from airflow_resume.jobs.decide import Facts, JobStatus, Lookup, Phase, Step, decide
from airflow_resume.jobs.policy import ResumePolicy

DEFAULT = ResumePolicy()
INTENT = Facts(phase=Phase.INTENT)
KNOWN = Facts(phase=Phase.SUBMITTED, has_id=True)
ENDED = Facts(phase=Phase.TERMINAL, has_id=True)
OLD = replace(KNOWN, cleared=True)

TABLE = {
    "first job": (Facts(), DEFAULT, Step.SUBMIT),
    # An attempt died around the submit.
    "intent, can look up": (replace(INTENT, can_find=True), DEFAULT, Step.LOOK_UP),
    "intent, found": (replace(INTENT, can_find=True, lookup=Lookup.FOUND), DEFAULT, Step.ADOPT),
    "intent, missing": (replace(INTENT, can_find=True, lookup=Lookup.MISSING), DEFAULT, Step.SUBMIT_AGAIN),
    "intent, missing, unwanted": (
        replace(INTENT, can_find=True, lookup=Lookup.MISSING, cleared=True),
        DEFAULT,
        Step.SUBMIT,
    ),
    "intent, token is de-duplicated": (replace(INTENT, is_idempotent=True), DEFAULT, Step.SUBMIT_AGAIN),
    "intent, neither": (INTENT, DEFAULT, Step.FAIL_LOST),
    "intent, neither, a second job accepted": (INTENT, ResumePolicy(on_lost_submission="resubmit"), Step.SUBMIT),
    "intent, neither, unwanted": (replace(INTENT, cleared=True), DEFAULT, Step.FAIL_LOST),
    # The inputs differ from those of the job.
    "changed": (replace(KNOWN, inputs_changed=True), DEFAULT, Step.ASK_STATUS),
    "changed, ended": (replace(ENDED, inputs_changed=True, saved_success=True), DEFAULT, Step.SUBMIT),
    "changed, fail": (replace(KNOWN, inputs_changed=True), ResumePolicy(on_input_change="fail"), Step.FAIL_INPUTS),
    "changed, fail, intent": (
        replace(INTENT, inputs_changed=True),
        ResumePolicy(on_input_change="fail"),
        Step.FAIL_INPUTS,
    ),
    "changed, fail, cleared": (
        replace(ENDED, inputs_changed=True, cleared=True),
        ResumePolicy(on_input_change="fail"),
        Step.SUBMIT,
    ),
    "changed, fail, never created": (
        replace(ENDED, inputs_changed=True, has_id=False),
        ResumePolicy(on_input_change="fail"),
        Step.SUBMIT,
    ),
    "changed, resume": (
        replace(KNOWN, inputs_changed=True, status=JobStatus.ACTIVE),
        ResumePolicy(on_input_change="resume"),
        Step.RECONNECT,
    ),
    "cleared, resume": (
        replace(KNOWN, cleared=True, status=JobStatus.ACTIVE),
        ResumePolicy(on_clear="resume"),
        Step.RECONNECT,
    ),
    # The id is known.
    "known": (KNOWN, DEFAULT, Step.ASK_STATUS),
    "active": (replace(KNOWN, status=JobStatus.ACTIVE), DEFAULT, Step.RECONNECT),
    "unknown": (replace(KNOWN, status=JobStatus.UNKNOWN), DEFAULT, Step.RECONNECT),
    "cancelling": (replace(KNOWN, status=JobStatus.CANCELLING), DEFAULT, Step.WAIT_FOR_END),
    "succeeded": (replace(KNOWN, status=JobStatus.SUCCEEDED), DEFAULT, Step.FETCH_RESULT),
    "failed before": (replace(KNOWN, status=JobStatus.FAILED), DEFAULT, Step.SUBMIT),
    "failed while waited for": (replace(KNOWN, status=JobStatus.FAILED, own=True), DEFAULT, Step.FAIL_JOB),
    "failed, no other allowed": (
        replace(KNOWN, status=JobStatus.FAILED),
        ResumePolicy(on_failed_job="fail"),
        Step.FAIL_JOB_FOR_GOOD,
    ),
    "gone": (replace(KNOWN, status=JobStatus.GONE), DEFAULT, Step.SUBMIT),
    "gone while waited for": (replace(KNOWN, status=JobStatus.GONE, own=True), DEFAULT, Step.FAIL_VANISHED),
    "gone, no other allowed": (
        replace(KNOWN, status=JobStatus.GONE),
        ResumePolicy(on_gone_job="fail"),
        Step.FAIL_GONE,
    ),
    # The record says how it ended.
    "ended, result saved": (replace(ENDED, saved_success=True, saved_result=True), DEFAULT, Step.RETURN_SAVED),
    "ended, result not saved": (replace(ENDED, saved_success=True), DEFAULT, Step.FETCH_RESULT),
    "ended without success": (ENDED, DEFAULT, Step.SUBMIT),
    "ended without success, no other allowed": (ENDED, ResumePolicy(on_failed_job="fail"), Step.FAIL_JOB_FOR_GOOD),
    "never created": (replace(ENDED, has_id=False), DEFAULT, Step.SUBMIT),
    "never created, no other allowed": (
        replace(ENDED, has_id=False),
        ResumePolicy(on_failed_job="fail"),
        Step.SUBMIT,
    ),
    # The task was cleared, or its inputs changed: the old job must have ended first.
    "old, known": (OLD, DEFAULT, Step.ASK_STATUS),
    "old, active, can cancel": (replace(OLD, status=JobStatus.ACTIVE, can_cancel=True), DEFAULT, Step.CANCEL),
    "old, active, cancelled": (
        replace(OLD, status=JobStatus.ACTIVE, can_cancel=True, cancelled=True),
        DEFAULT,
        Step.WAIT_FOR_END,
    ),
    "old, active, cannot cancel": (replace(OLD, status=JobStatus.ACTIVE), DEFAULT, Step.WAIT_FOR_END),
    "old, cancelling": (replace(OLD, status=JobStatus.CANCELLING, can_cancel=True), DEFAULT, Step.WAIT_FOR_END),
    "old, unknown, can cancel": (replace(OLD, status=JobStatus.UNKNOWN, can_cancel=True), DEFAULT, Step.CANCEL),
    "old, succeeded": (replace(OLD, status=JobStatus.SUCCEEDED), DEFAULT, Step.SUBMIT),
    "old, failed": (replace(OLD, status=JobStatus.FAILED), DEFAULT, Step.SUBMIT),
    "old, gone": (replace(OLD, status=JobStatus.GONE), DEFAULT, Step.SUBMIT),
    "old, ended": (replace(ENDED, cleared=True, saved_success=True), DEFAULT, Step.SUBMIT),
    # The task is being ended, and its job goes too: nothing is submitted any more.
    "stopped before anything": (Facts(stopped=True), DEFAULT, Step.FAIL_STOPPED),
    "stopped, intent, missing": (
        replace(INTENT, can_find=True, lookup=Lookup.MISSING, stopped=True),
        DEFAULT,
        Step.FAIL_STOPPED,
    ),
    "stopped, just submitted": (replace(KNOWN, can_cancel=True, stopped=True), DEFAULT, Step.CANCEL),
    "stopped, active, cannot cancel": (
        replace(KNOWN, status=JobStatus.ACTIVE, stopped=True),
        DEFAULT,
        Step.FAIL_STOPPED,
    ),
    "stopped, cancelled": (
        replace(KNOWN, status=JobStatus.CANCELLING, can_cancel=True, cancelled=True, stopped=True),
        DEFAULT,
        Step.FAIL_STOPPED,
    ),
    "stopped, ended": (
        replace(KNOWN, status=JobStatus.FAILED, can_cancel=True, stopped=True),
        DEFAULT,
        Step.FAIL_STOPPED,
    ),
    "stopped, old one ended": (
        replace(OLD, status=JobStatus.FAILED, can_cancel=True, stopped=True),
        DEFAULT,
        Step.FAIL_STOPPED,
    ),
}


@pytest.mark.parametrize(("facts", "policy", "step"), TABLE.values(), ids=TABLE)
def test_decision(facts: Facts, policy: ResumePolicy, step: Step, request: pytest.FixtureRequest) -> None:
    print(f"{request.node.callspec.id:45} -> {step.value}")
    assert decide(facts, policy) is step


def every_fact() -> list[Facts]:
    yes_no = (False, True)
    return [
        Facts(
            phase=phase,
            has_id=phase is not Phase.INTENT,
            saved_success=success,
            cleared=unwanted,
            can_find=find,
            can_cancel=cancel,
            is_idempotent=idempotent,
            lookup=lookup,
            status=status,
            own=waited,
            cancelled=cancelled,
        )
        for phase, success, unwanted, find, cancel, idempotent, lookup, status, waited, cancelled in itertools.product(
            [None, *Phase], yes_no, yes_no, yes_no, yes_no, yes_no, Lookup, [None, *JobStatus], yes_no, yes_no
        )
    ]


def test_no_fact_is_without_a_decision_and_none_submits_beside_a_job_that_may_live() -> None:
    live = {JobStatus.ACTIVE, JobStatus.CANCELLING, JobStatus.UNKNOWN, None}
    for facts in every_fact():
        step = decide(facts, DEFAULT)
        assert isinstance(step, Step)
        if facts.phase is Phase.SUBMITTED and facts.status in live:
            assert step not in {Step.SUBMIT, Step.SUBMIT_AGAIN}, facts
        if facts.phase is Phase.INTENT and step is Step.SUBMIT:
            assert facts.lookup is Lookup.MISSING, facts


def test_a_task_that_is_stopped_submits_nothing_and_fetches_nothing() -> None:
    for facts in every_fact():
        assert decide(replace(facts, stopped=True), DEFAULT) in {Step.CANCEL, Step.FAIL_STOPPED}, facts


@pytest.mark.parametrize("name", ["on_clear", "on_input_change", "on_lost_submission", "on_failed_job", "on_gone_job"])
def test_a_policy_value_that_does_not_exist_names_those_that_do(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='maybe' is not a choice; take one of"):
        ResumePolicy(**{name: "maybe"})  # type: ignore[arg-type]
