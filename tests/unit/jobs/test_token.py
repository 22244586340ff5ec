"""Whose a token is, and which one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from airflow_resume import run_job
from airflow_resume.attempt import Attempt, current_attempt
from airflow_resume.deployment import deployment
from airflow_resume.jobs.token import SubmissionToken, submission_token
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context


def token(attempt: TaskAttempt, name: str = "job", generation: int = 1) -> SubmissionToken:
    return SubmissionToken(submission_token(current_attempt(attempt.context), name, generation))


def test_it_has_32_hexadecimal_digits_and_is_the_same_in_every_attempt() -> None:
    first = task_context()
    assert re.fullmatch(r"[0-9a-f]{32}", token(first))
    assert token(first) == token(first.retry())


def test_hooks_are_handed_a_plain_text_as_there_are_libraries_that_write_nothing_else() -> None:
    jobs = FakeJobs()
    with task_context():
        run_job(jobs)
    assert type(jobs.jobs[0].token) is str


def test_slots_of_one_task_have_nothing_in_common() -> None:
    first = task_context()
    assert token(first, "a").slot != token(first, "b").slot


def life_steps() -> dict[str, TaskAttempt]:
    return {
        "a clear": task_context().clear(),
        "made again with its run id": task_context().recreate(),
    }


@pytest.mark.parametrize("step", life_steps())
def test_the_slot_stays_and_the_token_changes_with(step: str) -> None:
    before, after = token(task_context()), token(life_steps()[step])
    assert before.slot == after.slot
    assert before != after


def test_each_generation_has_another_token_of_the_same_slot() -> None:
    first = task_context()
    tokens = [token(first, generation=number) for number in range(1, 50)]
    assert len(set(tokens)) == len(tokens)
    assert {each.slot for each in tokens} == {tokens[0].slot}


def test_where_the_start_of_the_run_is_not_known_it_is_drawn() -> None:
    attempt = current_attempt(task_context().context)
    unknown = replace(attempt, epoch=attempt.epoch.model_copy(update={"run_started": None}))
    first, second = (submission_token(unknown, "job", 1) for _ in range(2))
    assert SubmissionToken(first).slot == SubmissionToken(second).slot
    assert first != second


def test_two_scripts_have_nothing_in_common() -> None:
    jobs = FakeJobs(dedupes=True)
    for _ in range(2):
        run_job(jobs, store=MemoryStore())
    assert len({SubmissionToken(submission_token(Attempt(), "job", 1)).slot for _ in range(5)}) == 5
    assert len(jobs.jobs) == 2


@pytest.mark.parametrize("digits", [16, 17, 31, 32, 33, 63, 64, 128, 256])
def test_another_form_has_so_many_digits_and_is_always_the_same(digits: int) -> None:
    given = SubmissionToken("0123456789abcdef" + "fedcba9876543210")
    form = given.of_length(digits)
    assert re.fullmatch(rf"[0-9a-f]{{{digits}}}", form)
    assert form == SubmissionToken(given).of_length(digits)
    assert form != SubmissionToken("0123456789abcdef" + "fedcba9876543211").of_length(digits) or digits < 32
    assert form.startswith(given) is (digits >= 32)


def test_a_shorter_form_has_digits_of_both_parts() -> None:
    assert SubmissionToken("0123456789abcdef" + "fedcba9876543210").of_length(20) == "0123456789" + "fedcba9876"


@pytest.mark.parametrize("digits", [0, 15, 257])
def test_a_form_that_is_too_short_or_too_long_is_refused(digits: int) -> None:
    with pytest.raises(ValueError, match="16 to 256"):
        SubmissionToken("0" * 32).of_length(digits)


# --- the deployment ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"API__BASE_URL": "http://localhost:8080"}, None),
        ({"API__BASE_URL": "http://127.0.0.1:8080/"}, None),
        ({"API__BASE_URL": "http://[::1]:8080/"}, None),
        ({"API__BASE_URL": "no url at all"}, None),
        ({"API__BASE_URL": "http://[broken"}, None),
        ({"API__BASE_URL": "https://airflow.example.com/"}, "https://airflow.example.com"),
        ({"AIRFLOW_RESUME__DEPLOYMENT": "production"}, "production"),
        ({"AIRFLOW_RESUME__DEPLOYMENT": "a", "API__BASE_URL": "https://airflow.example.com"}, "a"),
    ],
)
def test_the_deployment_is_named_by_its_setting_or_by_an_address_that_only_it_has(
    settings: dict[str, str], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API__BASE_URL", "AIRFLOW_RESUME__DEPLOYMENT"):
        monkeypatch.delenv(f"AIRFLOW__{name}", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__{name}", value)
    assert deployment() == expected


def test_the_same_names_in_another_deployment_are_another_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = []
    for name in ("staging", "production"):
        monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", name)
        tokens.append(token(task_context()))
    assert tokens[0].slot != tokens[1].slot
