"""The decisions about a claim and about a commit, as tables. `pytest -s` prints them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import product
from typing import get_args

import pytest

from airflow_resume.attempt import Attempt, Epoch, Scope
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import (
    Claiming,
    Committed,
    Held,
    OnContention,
    Sign,
    Stamp,
    decide_claim,
    decide_commit,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LATER = NOON + timedelta(days=1)


def task(try_number: int, started: datetime | None = NOON, owner: str = "a task") -> Claimant:
    return Claimant(owner=owner, started=started, try_number=try_number)


def held(by: Claimant, *, released: bool = False) -> Held:
    return Held(by=by, is_released=released)


SCRIPT, OTHER_RUN = Claimant(), task(5, owner="another task")

ATTEMPTS: dict[str, tuple[Held | None, Claimant, Claiming]] = {
    "no row": (None, task(1), Claiming.INSERT),
    "no row, a script": (None, SCRIPT, Claiming.INSERT),
    "an earlier try": (held(task(1)), task(2), Claiming.TAKE_OVER),
    "an earlier try that gave it back": (held(task(1), released=True), task(2), Claiming.TAKE_OVER),
    "the same try, in another process": (held(task(1)), task(1), Claiming.TAKE_OVER),
    "a later try": (held(task(2)), task(1), Claiming.SUPERSEDED),
    "a later try that gave it back": (held(task(2), released=True), task(1), Claiming.SUPERSEDED),
    "a run that was made again": (held(task(3)), task(1, LATER), Claiming.TAKE_OVER),
    "a try of the run before it was made again": (held(task(1, LATER)), task(3), Claiming.SUPERSEDED),
    "an earlier try, start unknown": (held(task(1, None)), task(2), Claiming.TAKE_OVER),
    "a later try, start unknown": (held(task(2)), task(1, None), Claiming.SUPERSEDED),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempts_of_one_task_instance_have_an_order_and_no_policy(name: str) -> None:
    found, ours, wanted = ATTEMPTS[name]
    for policy, sign in product(get_args(OnContention), Sign):
        assert decide_claim(found, ours, policy, sign) is wanted
    print(f"{name:45} {wanted.value}")


RUNS: dict[tuple[OnContention, Sign], Claiming] = {
    ("take_over", Sign.UNKNOWN): Claiming.TAKE_OVER,
    ("take_over", Sign.ALIVE): Claiming.TAKE_OVER,
    ("take_over", Sign.SILENT): Claiming.TAKE_OVER,
    ("wait", Sign.UNKNOWN): Claiming.WAIT,
    ("wait", Sign.ALIVE): Claiming.WAIT,
    ("wait", Sign.SILENT): Claiming.TAKE_OVER,
    ("fail", Sign.UNKNOWN): Claiming.WAIT,
    ("fail", Sign.ALIVE): Claiming.FAIL,
    ("fail", Sign.SILENT): Claiming.TAKE_OVER,
}


@pytest.mark.parametrize(("policy", "sign"), product(get_args(OnContention), Sign))
@pytest.mark.parametrize(
    ("other", "ours"), [(SCRIPT, SCRIPT), (SCRIPT, task(1)), (task(1), SCRIPT), (OTHER_RUN, task(1))]
)
def test_between_runs_without_an_order_the_policy_decides(
    other: Claimant, ours: Claimant, policy: OnContention, sign: Sign
) -> None:
    assert decide_claim(held(other), ours, policy, sign) is RUNS[policy, sign]
    assert decide_claim(held(other, released=True), ours, policy, sign) is Claiming.TAKE_OVER


COMMITS: dict[str, tuple[Stamp | None, Committed]] = {
    "the row is as it was": (Stamp("ours", 7), Committed.NO),
    "our next version is there": (Stamp("ours", 8), Committed.YES),
    "another claim, the same version": (Stamp("other", 7), Committed.SUPERSEDED),
    "another claim after it": (Stamp("other", 8), Committed.SUPERSEDED),
    "another claim, and commits": (Stamp("other", 12), Committed.SUPERSEDED),
    "an older version, as after a restore": (Stamp("ours", 3), Committed.SUPERSEDED),
    "no row": (None, Committed.GONE),
}


@pytest.mark.parametrize("name", COMMITS)
def test_what_became_of_a_commit_is_read_from_the_row(name: str) -> None:
    found, wanted = COMMITS[name]
    assert decide_commit(found, Stamp("ours", 7)) is wanted
    print(f"{name:45} {wanted.value}")


def test_the_claimant_is_the_attempt() -> None:
    scope = Scope(dag_id="d", run_id="r", task_id="t", map_index=3)
    attempt = Attempt(scope=scope, try_number=2, epoch=Epoch(run_started="2026-01-01T12:00:00+00:00"))
    assert Claimant.of(attempt) == Claimant(owner='["d","r","t",3]', started=NOON, try_number=2)
    assert Claimant.of(Attempt()) == SCRIPT
