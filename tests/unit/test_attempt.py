from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import pytest

from airflow_resume.attempt import Attempt, Cleared, Epoch, Scope, current_attempt


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"ti": MagicMock()},
        {"ti": MagicMock(), "dag_run": MagicMock(), "task_state_store": MagicMock()},
        {"ti": MagicMock(spec_set=["stats_tags"], stats_tags={})},
        {"ti": SimpleNamespace()},
        MagicMock(),
    ],
    ids=["nothing", "a ti", "all", "a ti with nothing but tags", "an empty ti", "a context"],
)
def test_a_mock_is_a_first_try_of_nothing_in_particular(context: Any) -> None:
    attempt = current_attempt(context)
    assert (attempt.scope, attempt.try_number, attempt.retries) == (Scope(), 1, None)
    assert (attempt.epoch.max_tries, attempt.epoch.clear_number, attempt.epoch.run_started) == (0, 0, None)
    assert attempt.is_last is Attempt().is_last
    assert attempt.ask_state() is None


def test_what_a_mock_was_told_counts() -> None:
    ti = MagicMock(dag_id="sales", run_id="r", task_id="load", map_index=3, try_number=2, max_tries=4)
    ti.task.retries = 1
    ti.stats_tags = {"team_name": "ml"}
    ti.get_task_states.return_value = {"r": {"load_3": "running"}}
    attempt = current_attempt({"ti": ti, "dag_run": MagicMock(clear_number=5)})
    assert attempt.scope == Scope(dag_id="sales", run_id="r", task_id="load", map_index=3)
    assert (attempt.try_number, attempt.retries) == (2, 1)
    assert attempt.epoch == Epoch(max_tries=4, clear_number=5, try_number=2)
    assert attempt.uncleared == Epoch(max_tries=1, clear_number=5, try_number=2)
    assert attempt.stats_tags["team_name"] == "ml"
    assert attempt.ask_state() == "running"


@pytest.mark.parametrize("odd", [True, "2", 2.0, None])
def test_only_an_int_is_a_number(odd: Any) -> None:
    ti = SimpleNamespace(dag_id="sales", run_id="r", task_id="load", map_index=odd, try_number=odd, max_tries=odd)
    attempt = current_attempt({"ti": ti, "dag_run": SimpleNamespace(clear_number=odd)})
    assert (attempt.scope.map_index, attempt.try_number, attempt.epoch) == (-1, 1, Epoch(try_number=1))


def test_only_text_is_a_name() -> None:
    ti = SimpleNamespace(dag_id=7, run_id=None, task_id=b"load", stats_tags={"team_name": 7})
    attempt = current_attempt({"ti": ti})
    assert attempt.scope == Scope()
    assert "team_name" not in attempt.stats_tags


# --- a loop of tasks, as Airflow 3.4 has it -------------------------------------------------------------------------

REGION = UUID(int=7)


def scope_in(region: UUID | None, index: int | None, *, loop: object = object(), map_index: int = -1) -> Scope:
    """The scope of a task in a region. Every iteration has the same Dag, run, task and map index."""
    ti = SimpleNamespace(
        dag_id="sales", run_id="r", task_id="load", map_index=map_index, region_id=region, region_index=index
    )
    return current_attempt({"ti": ti, "loop": loop}).scope


def test_iterations_of_a_loop_of_tasks_are_other_task_instances() -> None:
    scopes = [
        scope_in(REGION, 0),
        scope_in(REGION, 1),
        scope_in(UUID(int=8), 1),  # cleared, and repeated
        scope_in(REGION, 0, loop=None),
    ]
    assert len({str(scope.identity()) for scope in scopes}) == len(set(scopes)) == 4


def test_instances_of_a_mapped_task_in_a_loop_of_tasks_are_told_apart_in_each_iteration() -> None:
    scopes = [scope_in(UUID(int=region), index, map_index=index) for region in (7, 8) for index in (0, 1)]
    assert len({str(scope.identity()) for scope in scopes}) == 4


@pytest.mark.parametrize("region", [None, UUID(int=0), REGION])
def test_outside_a_loop_of_tasks_the_identity_is_that_of_airflow_3_3(region: UUID | None) -> None:
    """So an upgrade of Airflow changes no token. A mapped task has a region in Airflow 3.4, and needs none."""
    assert scope_in(region, 2, loop=None, map_index=2).identity() == ["sales", "r", "load", 2]


# --- was it cleared? ------------------------------------------------------------------------------------------------

MONDAY, TUESDAY = "2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00"
BEFORE = Epoch(max_tries=3, clear_number=0, try_number=1, run_started=MONDAY)


def later(**changes: Any) -> Epoch:
    return BEFORE.model_copy(update={"try_number": 2, **changes})


CLEARS = {
    "a retry": (later(), 3, False, Cleared.NO),
    "a clear": (later(max_tries=4, clear_number=1), 3, False, Cleared.YES),
    "another task was cleared": (later(clear_number=1), 3, False, Cleared.PERHAPS),
    "another task was cleared, and the work is done": (later(clear_number=1), 3, True, Cleared.PERHAPS),
    "retries 3 to 2, and a clear after the run": (later(clear_number=1, run_started=TUESDAY), 2, False, Cleared.YES),
    "retries 3 to 2, and a clear of finished work": (later(clear_number=1), 2, True, Cleared.YES),
    "retries 3 to 2, and a clear, or another one's and a retry": (later(clear_number=1), 2, False, Cleared.PERHAPS),
    "retries 3 to 2, and no clear": (later(), 2, True, Cleared.NO),
    "another one's clear after the run had finished, same try": (
        later(clear_number=1, run_started=TUESDAY, try_number=1),
        3,
        False,
        Cleared.PERHAPS,
    ),
    "another task was cleared while this one was deferred": (
        later(clear_number=1, try_number=1),
        2,
        True,
        Cleared.PERHAPS,
    ),
    "the start of the run is not known": (later(clear_number=1, run_started=None), 3, False, Cleared.PERHAPS),
}


@pytest.mark.parametrize(("now", "retries", "ended", "expected"), CLEARS.values(), ids=CLEARS)
def test_a_clear_is_told_from_a_retry(now: Epoch, retries: int, ended: bool, expected: Cleared) -> None:  # noqa: FBT001
    attempt = Attempt(try_number=now.try_number or 0, epoch=now, retries=retries)
    assert attempt.cleared_since(BEFORE, 1, ended=ended) is expected


def test_an_epoch_of_version_0_1_is_compared_by_the_try_that_claimed_the_record() -> None:
    old = Epoch.model_validate({"max_tries": 3, "clear_number": 0})
    attempt = Attempt(try_number=3, epoch=later(clear_number=1, try_number=3), retries=1)
    assert attempt.cleared_since(old, 2, ended=True) is Cleared.YES
    assert attempt.cleared_since(old, 3, ended=True) is Cleared.PERHAPS
