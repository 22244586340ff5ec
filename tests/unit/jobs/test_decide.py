"""The decision as a table. `pytest -s` prints it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from airflow_resume.jobs.decide import JobFacts, JobStatus, Lookup, Phase, Step, Stray, decide
from airflow_resume.jobs.policy import ResumePolicy

DEFAULT = ResumePolicy()
INTENT = JobFacts(phase=Phase.INTENT)
KNOWN = JobFacts(phase=Phase.SUBMITTED, has_id=True)
ENDED = JobFacts(phase=Phase.TERMINAL, has_id=True)
OLD = replace(KNOWN, cleared=True)
FRESH = JobFacts(phase=Phase.INTENT, fresh=True)
SEARCHED = replace(FRESH, can_find_strays=True)
MISSED = replace(INTENT, can_find=True, can_find_strays=True, lookup=Lookup.MISSING)
LOST = replace(INTENT, can_find=True, can_find_strays=True, lost=True)

TABLE = {
    "first job": (JobFacts(), DEFAULT, Step.SUBMIT),
    # It is claimed, and live jobs that no record tells of are looked for before it is sent.
    "claimed, cannot search": (FRESH, DEFAULT, Step.SEND),
    "claimed, can search": (SEARCHED, DEFAULT, Step.LOOK_FOR_STRAYS),
    "claimed, none alive": (replace(SEARCHED, stray=Stray.NONE), DEFAULT, Step.SEND),
    "claimed, one of this very token": (replace(SEARCHED, stray=Stray.THIS_TOKENS), DEFAULT, Step.ADOPT),
    "claimed, one of this token has ended": (replace(SEARCHED, stray=Stray.ENDED), DEFAULT, Step.SUBMIT),
    "claimed, ours alive": (replace(SEARCHED, stray=Stray.OURS), DEFAULT, Step.ADOPT_STRAY),
    "claimed, ours alive, resume": (
        replace(SEARCHED, stray=Stray.OURS),
        ResumePolicy(on_stray_job="resume"),
        Step.ADOPT,
    ),
    "claimed, ours alive, fail": (
        replace(SEARCHED, stray=Stray.OURS),
        ResumePolicy(on_stray_job="fail"),
        Step.FAIL_STRAY,
    ),
    "claimed, and what is found is not found by the token": (
        replace(SEARCHED, stray=Stray.WRONG),
        DEFAULT,
        Step.FAIL_FIND,
    ),
    "claimed, somebody's alive": (replace(SEARCHED, stray=Stray.SOMEBODYS), DEFAULT, Step.FAIL_STRAY),
    "claimed, somebody's alive, resume": (
        replace(SEARCHED, stray=Stray.SOMEBODYS),
        ResumePolicy(on_stray_job="resume"),
        Step.FAIL_STRAY,
    ),
    "stray, active": (
        replace(KNOWN, is_stray=True, status=JobStatus.ACTIVE, can_cancel=True),
        DEFAULT,
        Step.CANCEL,
    ),
    "stray, succeeded": (replace(KNOWN, is_stray=True, status=JobStatus.SUCCEEDED), DEFAULT, Step.SUBMIT),
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
    "intent, missing, can search": (MISSED, DEFAULT, Step.LOOK_FOR_STRAYS),
    "intent, missing, none alive": (replace(MISSED, stray=Stray.NONE), DEFAULT, Step.SUBMIT_AGAIN),
    "intent, missing, ours alive": (replace(MISSED, stray=Stray.OURS), DEFAULT, Step.ADOPT_STRAY),
    "intent, missing, somebody's alive": (replace(MISSED, stray=Stray.SOMEBODYS), DEFAULT, Step.FAIL_STRAY),
    "intent, missing, and there after all": (replace(MISSED, stray=Stray.THIS_TOKENS), DEFAULT, Step.ADOPT),
    "intent, missing, and ended after all": (replace(MISSED, stray=Stray.ENDED), DEFAULT, Step.ADOPT),
    "intent, missing, can search, unwanted": (replace(MISSED, cleared=True), DEFAULT, Step.SUBMIT),
    "intent of a lost record": (LOST, DEFAULT, Step.LOOK_FOR_STRAYS),
    "intent of a lost record, none alive": (replace(LOST, stray=Stray.NONE), DEFAULT, Step.SUBMIT_AGAIN),
    "intent of a lost record, its token has ended": (replace(LOST, stray=Stray.ENDED), DEFAULT, Step.SUBMIT),
    "intent of a lost record, unwanted": (replace(LOST, cleared=True), DEFAULT, Step.LOOK_UP),
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
        replace(ENDED, inputs_changed=True, cleared=True, saved_success=True),
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
    "active, this attempt's own": (replace(KNOWN, status=JobStatus.ACTIVE, own=True), DEFAULT, Step.WAIT),
    "unknown": (replace(KNOWN, status=JobStatus.UNKNOWN), DEFAULT, Step.RECONNECT),
    "cancelling": (replace(KNOWN, status=JobStatus.CANCELLING), DEFAULT, Step.WAIT_FOR_END),
    "succeeded": (replace(KNOWN, status=JobStatus.SUCCEEDED), DEFAULT, Step.FETCH_RESULT),
    "failed, said once": (replace(KNOWN, status=JobStatus.FAILED), DEFAULT, Step.CONFIRM),
    "failed before": (replace(KNOWN, status=JobStatus.FAILED, confirmed=True), DEFAULT, Step.SUBMIT),
    "failed while waited for, said once": (replace(KNOWN, status=JobStatus.FAILED, own=True), DEFAULT, Step.CONFIRM),
    "failed while waited for": (
        replace(KNOWN, status=JobStatus.FAILED, own=True, confirmed=True),
        DEFAULT,
        Step.FAIL_JOB,
    ),
    "failed, no other allowed": (
        replace(KNOWN, status=JobStatus.FAILED, confirmed=True),
        ResumePolicy(on_failed_job="fail"),
        Step.FAIL_JOB_FOR_GOOD,
    ),
    "gone, said once": (replace(KNOWN, status=JobStatus.GONE), DEFAULT, Step.CONFIRM),
    "gone, said once, no other allowed": (
        replace(KNOWN, status=JobStatus.GONE),
        ResumePolicy(on_gone_job="fail"),
        Step.CONFIRM,
    ),
    "gone": (replace(KNOWN, status=JobStatus.GONE, confirmed=True), DEFAULT, Step.SUBMIT),
    "gone while waited for": (
        replace(KNOWN, status=JobStatus.GONE, own=True, confirmed=True),
        DEFAULT,
        Step.FAIL_VANISHED,
    ),
    "gone, no other allowed": (
        replace(KNOWN, status=JobStatus.GONE, confirmed=True),
        ResumePolicy(on_gone_job="fail"),
        Step.FAIL_GONE,
    ),
    # The record says how it ended.
    "ended, result saved": (replace(ENDED, saved_success=True, saved_result=True), DEFAULT, Step.RETURN_SAVED),
    "ended, result not saved": (replace(ENDED, saved_success=True), DEFAULT, Step.FETCH_RESULT),
    "ended, result gone, said once": (
        replace(ENDED, saved_success=True, status=JobStatus.GONE),
        DEFAULT,
        Step.CONFIRM,
    ),
    "ended, result gone": (
        replace(ENDED, saved_success=True, status=JobStatus.GONE, confirmed=True),
        DEFAULT,
        Step.SUBMIT,
    ),
    "ended, result gone, no other allowed": (
        replace(ENDED, saved_success=True, status=JobStatus.GONE, confirmed=True),
        ResumePolicy(on_gone_job="fail"),
        Step.FAIL_GONE,
    ),
    "ended without success": (ENDED, DEFAULT, Step.ASK_STATUS),
    "ended without success, and still": (replace(ENDED, status=JobStatus.FAILED), DEFAULT, Step.SUBMIT),
    "ended without success, gone by now": (replace(ENDED, status=JobStatus.GONE), DEFAULT, Step.SUBMIT),
    "ended without success, cannot be asked": (replace(ENDED, status=JobStatus.UNKNOWN), DEFAULT, Step.SUBMIT),
    "ended without success, active again": (replace(ENDED, status=JobStatus.ACTIVE), DEFAULT, Step.REVIVE),
    "ended without success, succeeded": (replace(ENDED, status=JobStatus.SUCCEEDED), DEFAULT, Step.REVIVE),
    "ended without success, no other allowed": (
        replace(ENDED, status=JobStatus.FAILED),
        ResumePolicy(on_failed_job="fail"),
        Step.FAIL_JOB_FOR_GOOD,
    ),
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
    "old, failed, said once": (replace(OLD, status=JobStatus.FAILED), DEFAULT, Step.CONFIRM),
    "old, failed": (replace(OLD, status=JobStatus.FAILED, confirmed=True), DEFAULT, Step.SUBMIT),
    "old, gone, said once": (replace(OLD, status=JobStatus.GONE), DEFAULT, Step.CONFIRM),
    "old, gone": (replace(OLD, status=JobStatus.GONE, confirmed=True), DEFAULT, Step.SUBMIT),
    "old, ended without success": (replace(ENDED, cleared=True), DEFAULT, Step.ASK_STATUS),
    "old, ended without success, active again": (
        replace(ENDED, cleared=True, status=JobStatus.ACTIVE),
        DEFAULT,
        Step.REVIVE,
    ),
    "old, ended": (replace(ENDED, cleared=True, saved_success=True), DEFAULT, Step.SUBMIT),
    # The task is being ended, and its job goes too: nothing is submitted any more.
    "stopped before anything": (JobFacts(stopped=True), DEFAULT, Step.FAIL_STOPPED),
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
    "stopped, intent, can look up and cancel": (
        replace(INTENT, can_find=True, can_cancel=True, stopped=True),
        DEFAULT,
        Step.LOOK_UP,
    ),
    "stopped, intent, found": (
        replace(INTENT, can_find=True, can_cancel=True, lookup=Lookup.FOUND, stopped=True),
        DEFAULT,
        Step.ADOPT,
    ),
    "stopped, intent, not found at once": (
        replace(INTENT, can_find=True, can_cancel=True, lookup=Lookup.UNSETTLED, stopped=True),
        DEFAULT,
        Step.FAIL_STOPPED,
    ),
    "stopped, intent, cannot cancel": (replace(INTENT, can_find=True, stopped=True), DEFAULT, Step.FAIL_STOPPED),
    "intent, not found at once": (
        replace(INTENT, can_find=True, lookup=Lookup.UNSETTLED),
        DEFAULT,
        Step.LOOK_UP,
    ),
    "leaving, not found at once": (
        replace(INTENT, can_find=True, lookup=Lookup.UNSETTLED, leaving=True),
        DEFAULT,
        Step.GIVE_BACK,
    ),
    "stopped, claimed": (replace(FRESH, stopped=True), DEFAULT, Step.FAIL_STOPPED),
    # The worker goes, and the task comes back in the same try.
    "leaving before anything": (JobFacts(leaving=True), DEFAULT, Step.GIVE_BACK),
    "leaving, claimed": (replace(FRESH, leaving=True), DEFAULT, Step.GIVE_BACK),
    "leaving, known": (replace(KNOWN, leaving=True), DEFAULT, Step.ASK_STATUS),
    "leaving, active": (replace(KNOWN, status=JobStatus.ACTIVE, leaving=True), DEFAULT, Step.GIVE_BACK),
    "leaving, succeeded": (replace(KNOWN, status=JobStatus.SUCCEEDED, leaving=True), DEFAULT, Step.FETCH_RESULT),
    "leaving, found by its token": (
        replace(INTENT, can_find=True, lookup=Lookup.FOUND, leaving=True),
        DEFAULT,
        Step.ADOPT,
    ),
    "leaving, gone, said once": (replace(KNOWN, status=JobStatus.GONE, leaving=True), DEFAULT, Step.GIVE_BACK),
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
def test_decision(facts: JobFacts, policy: ResumePolicy, step: Step, request: pytest.FixtureRequest) -> None:
    print(f"{request.node.callspec.id:45} -> {step.value}")
    assert decide(facts, policy) is step


def every_fact() -> list[JobFacts]:
    yes_no = (False, True)
    return [
        JobFacts(
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
            confirmed=confirmed,
        )
        for (
            (phase, success, unwanted, find, cancel, idempotent),
            (lookup, status, waited, cancelled, confirmed),
        ) in itertools.product(
            itertools.product([None, *Phase], yes_no, yes_no, yes_no, yes_no, yes_no),
            itertools.product(Lookup, [None, *JobStatus], yes_no, yes_no, yes_no),
        )
    ]


def test_no_fact_is_without_a_decision_and_none_submits_beside_a_job_that_may_live() -> None:
    live = {JobStatus.ACTIVE, JobStatus.CANCELLING, JobStatus.UNKNOWN, None}
    for facts in every_fact():
        step = decide(facts, DEFAULT)
        assert isinstance(step, Step)
        if facts.phase is Phase.SUBMITTED and facts.status in live:
            assert step not in {Step.SUBMIT, Step.SUBMIT_AGAIN}, facts
        if (
            facts.phase is Phase.SUBMITTED
            and facts.status in {JobStatus.GONE, JobStatus.FAILED}
            and not facts.confirmed
        ):
            assert step is Step.CONFIRM, facts
        if facts.phase is Phase.TERMINAL and not facts.saved_success and facts.status in {*live, JobStatus.SUCCEEDED}:
            assert step is not Step.SUBMIT or facts.status is JobStatus.UNKNOWN, facts
        if facts.phase is Phase.INTENT and step is Step.SUBMIT:
            assert facts.lookup is Lookup.MISSING, facts


def test_nothing_is_sent_before_live_jobs_of_the_slot_were_looked_for() -> None:
    for stray in Stray:
        for policy in (ResumePolicy(on_stray_job=choice) for choice in ("resubmit", "resume", "fail")):
            step = decide(replace(SEARCHED, stray=stray), policy)
            assert (step is Step.SEND) is (stray is Stray.NONE), (stray, step)


def test_an_attempt_that_leaves_begins_nothing() -> None:
    begun = {Step.SUBMIT, Step.SEND, Step.SUBMIT_AGAIN, Step.WAIT, Step.RECONNECT, Step.WAIT_FOR_END, Step.CANCEL}
    for facts in every_fact():
        assert decide(replace(facts, leaving=True), DEFAULT) not in begun, facts


def test_a_task_that_is_stopped_submits_nothing_and_fetches_nothing() -> None:
    for facts in every_fact():
        step = decide(replace(facts, stopped=True), DEFAULT)
        assert step in {Step.LOOK_UP, Step.ADOPT, Step.CANCEL, Step.FAIL_STOPPED}, facts
        assert step is not Step.LOOK_UP or facts.lookup is Lookup.NOT_ASKED, facts


def test_an_attempt_that_knows_that_it_was_replaced_does_nothing_more() -> None:
    for facts in every_fact():
        assert decide(replace(facts, replaced=True, stopped=True, leaving=True), DEFAULT) is Step.FAIL_REPLACED


@pytest.mark.parametrize(
    "name",
    [
        "on_clear",
        "on_input_change",
        "on_lost_submission",
        "on_failed_job",
        "on_gone_job",
        "on_stray_job",
        "on_shutdown",
    ],
)
def test_a_policy_value_that_does_not_exist_names_those_that_do(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='maybe' is not a choice.\\nTake one of"):
        ResumePolicy(**{name: "maybe"})  # type: ignore[arg-type]
