"""A window that one task loads and another one commits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import watermark
from airflow_resume.errors import SupersededError, WatermarkConflictError, WatermarkInputError, WindowNotReadError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Cursor, Outcome
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import (
    MARK,
    NUMBERS,
    WINDOW,
    Counter,
    a_try,
    load,
    marks,
    numbers,
    rows,
    stands,
    track,
)


def two_tasks(world: World | None = None, run_id: str = "run-1") -> tuple[TaskAttempt, TaskAttempt]:
    """Of one run: that which loads, and that which commits."""
    shared = world or World()
    loading, committing = (
        task_context(assets=[NUMBERS], task_id=task, world=shared, run_id=run_id) for task in ("load", "commit")
    )
    return loading, committing


def staged(attempt: TaskAttempt, mark: Any, body: Any = lambda _: None) -> Any:
    """As an XCom carries it."""
    window = mark.begin(attempt.context)
    body(window)
    return json.loads(json.dumps(window.stage()))


def test_the_mark_moves_when_the_last_task_commits_and_not_before() -> None:
    loading, committing = two_tasks()
    mark = numbers(Counter(10))
    token = staged(loading, mark)
    assert stands(loading) == "0"
    assert mark.commit(committing.context, token) is Outcome.ADVANCED
    assert stands(loading) == "10"
    assert committing.task_store.values[WINDOW]["state"] == "committed"
    assert mark.begin(loading.next_run().context).empty


def test_both_tasks_may_be_tried_and_cleared_again() -> None:
    loading, committing = two_tasks()
    clock = Counter(10)
    mark = numbers(clock)
    staged(loading, mark)
    clock.number = 20
    loading = loading.retry()
    token = staged(loading, mark)
    assert (token["start"], token["end"]) == ("0", "10")
    assert mark.commit(committing.context, token) is Outcome.ADVANCED
    assert mark.commit(committing.retry().context, token) is Outcome.NOOP
    again = loading.clear()
    assert staged(again, mark) == token
    assert mark.commit(committing.clear().context, token) is Outcome.NOOP
    assert stands(loading) == "10"


def test_one_task_may_do_both() -> None:
    first, mark = a_try(), numbers(Counter(10))
    assert mark.commit(first.context, staged(first, mark)) is Outcome.ADVANCED
    assert load(first.clear(), mark).is_replay


def test_what_was_observed_and_the_ties_go_along() -> None:
    loading, committing = two_tasks()
    mark = numbers()
    mark.commit(committing.context, staged(loading, mark, track(3, 5, unique=True)))
    got: list[int] = []
    load(loading.next_run(), mark, lambda window: got.extend(track(5, 6, unique=True)(window)))
    assert got == [6]


def test_what_is_not_read_is_not_staged() -> None:
    with pytest.raises(WindowNotReadError, check=having(problem="unread")):
        staged(a_try(), numbers())
    with pytest.raises(WindowNotReadError, check=having(problem="unread")):
        staged(a_try(), numbers(), lambda window: next(window.track(rows(1, 2), "n")))


@pytest.mark.parametrize("advance", ["window", "observed", "explicit"])
def test_nothing_new_is_staged_and_nothing_is_committed(advance: Any) -> None:
    loading, committing = two_tasks()
    mark = numbers(Counter(0), advance=advance)
    token = staged(loading, mark)
    before = marks(loading)
    assert mark.commit(committing.context, token) is Outcome.EMPTY
    assert (marks(loading), WINDOW in committing.task_store.values) == (before, False)


def test_a_sample_and_an_isolated_window_are_staged_and_move_nothing() -> None:
    loading, committing = two_tasks()
    mark = numbers(Counter(10))
    token = staged(loading, mark, lambda window: window.sampled())
    assert mark.commit(committing.context, token) is Outcome.UNCOMMITTED
    assert stands(loading) == "0"


def test_an_isolated_window_stays_one_in_a_retry_of_a_task_that_does_both() -> None:
    first, mark = a_try(), numbers(Counter(10))
    first.context["dag_run"].conf = {"watermark": {"watermark": {"from": 0, "to": 7}}}
    mark.commit(first.context, staged(first, mark))
    load(first.retry(), mark)
    assert stands(first) == "0"


def test_a_record_made_anew_fences_what_was_staged() -> None:
    loading, committing = two_tasks()
    mark = numbers(Counter(10))
    token = staged(loading, mark)
    loading.asset_stores[NUMBERS].set(MARK, "3")
    assert mark.commit(committing.context, token) is Outcome.FENCED
    assert marks(loading)[MARK] == "3"


def test_a_replaced_attempt_commits_nothing() -> None:
    loading, committing = two_tasks()
    mark = numbers(Counter(10))
    token = staged(loading, mark)
    committing.supersede()
    with pytest.raises(SupersededError):
        mark.commit(committing.context, token)
    assert stands(loading) == "0"


def test_a_token_of_another_run_is_refused_without_a_retry() -> None:
    world = World()
    loading, _ = two_tasks(world)
    _, committing = two_tasks(world, "run-2")
    mark = numbers(Counter(10))
    with pytest.raises(
        WatermarkInputError, match=r"run 'run-1' of 'dag'.*\nPull it from this run", check=having(given="token")
    ) as raised:
        mark.commit(committing.context, staged(loading, mark))
    assert isinstance(raised.value, AirflowFailException)
    assert stands(loading) == "0"


def test_a_token_of_another_watermark_is_refused() -> None:
    loading, committing = two_tasks()
    token = staged(loading, numbers(Counter(10)))
    with pytest.raises(
        WatermarkInputError, match=r"one of 'resume\.watermark\.watermark'", check=having(given="token")
    ):
        numbers(Counter(10), name="other").commit(committing.context, token)


@pytest.mark.parametrize("token", [{}, {"v": 1}, "token", 5, ["a"]])
def test_what_was_never_staged_is_refused(token: Any) -> None:
    _, committing = two_tasks()
    with pytest.raises(WatermarkInputError, match=r"window\.stage\(\)", check=having(given="token")):
        numbers().commit(committing.context, token)
    assert marks(committing) == {}


def test_a_token_with_something_added_is_refused() -> None:
    loading, committing = two_tasks()
    mark = numbers(Counter(10))
    with pytest.raises(WatermarkInputError, check=having(given="token")):
        mark.commit(committing.context, {**staged(loading, mark), "x": 1})


def test_a_token_of_the_source_can_be_staged() -> None:
    loading, committing = two_tasks()
    mark = watermark(NUMBERS, initial="t0", cursor=Cursor.token())
    mark.commit(committing.context, staged(loading, mark, lambda window: window.advance({"t": 1})))
    assert stands(loading) == {"t": 1}


@pytest.mark.parametrize("dies", [False, True])
def test_of_a_task_that_does_both_the_record_of_the_window_stays_whole(dies: bool) -> None:  # noqa: FBT001
    """A window whose limit is lost would move the mark over rows that may still change."""
    first, mark = a_try(), numbers(Counter(10))
    first.context["dag_run"].conf = {"watermark": {"watermark": {"from": 0, "to": 20, "commit": True}}}
    token = staged(first, mark)
    before: Any = first.task_store.values[WINDOW]
    if dies:
        first.world.observer = _dies_before_the_mark_moves
        with pytest.raises(_DiedError):
            mark.commit(first.context, token)
        first.world.observer = None
    else:
        mark.commit(first.context, token)
    after: Any = first.task_store.values[WINDOW]
    assert {name: after.get(name) for name in before if name not in _MAY_CHANGE} == {
        name: value for name, value in before.items() if name not in _MAY_CHANGE
    }
    window = load(first.retry(), mark)
    assert (window.start, window.end, stands(first)) == (0, 20, "10")


_MAY_CHANGE = {"state", "claim", "summary"}


class _DiedError(Exception):
    """The process died."""


def _dies_before_the_mark_moves(when: str, operation: str) -> None:
    if (when, operation) == ("before", f"set {MARK}"):
        raise _DiedError


def test_what_was_observed_is_not_read_again_by_a_retry_of_a_task_that_does_both() -> None:
    first, mark = a_try(), numbers()
    mark.commit(first.context, staged(first, mark, track(3, 5, unique=True)))
    second, got = first.next_run(), list[int]()
    token = staged(second, mark, track(5, 6, unique=True))
    before: Any = second.task_store.values[WINDOW]
    mark.commit(second.context, token)
    assert second.task_store.values[WINDOW]["ties"] == before["ties"]  # type: ignore[index,call-overload]
    load(second.retry(), mark, lambda window: got.extend(track(5, 6, unique=True)(window)))
    assert got == [6]


def _to(token: str) -> Any:
    return lambda window: window.advance(token)


def test_a_token_that_was_committed_is_staged_and_committed_again_when_its_run_is_cleared() -> None:
    mark = watermark(NUMBERS, initial="t0", cursor=Cursor.token())
    loading, committing = two_tasks()
    token = staged(loading, mark, _to("t1"))
    assert mark.commit(committing.context, token) is Outcome.ADVANCED
    later, commits = (attempt.next_run("run-2") for attempt in (loading, committing))
    mark.commit(commits.context, staged(later, mark, _to("t2")))
    again = staged(loading.clear(), mark, _to("t1"))
    assert (again["start"], again["new"]) == ("t0", "t1")
    assert mark.commit(committing.clear().context, again) is Outcome.NOOP
    assert stands(later) == "t2"


def test_a_token_that_another_run_has_moved_meanwhile_is_loaded_from_the_new_one_when_the_run_is_cleared() -> None:
    mark = watermark(NUMBERS, initial="t0", cursor=Cursor.token())
    loading, committing = two_tasks()
    token = staged(loading, mark, _to("t1"))
    later, commits = (attempt.next_run("run-2") for attempt in (loading, committing))
    mark.commit(commits.context, staged(later, mark, _to("t2")))
    with pytest.raises(WatermarkConflictError, match="Clear the task that has loaded it"):
        mark.commit(committing.context, token)
    again = staged(loading.clear(), mark, _to("t3"))
    assert (again["start"], again["new"]) == ("t2", "t3")
    assert mark.commit(committing.clear().context, again) is Outcome.ADVANCED
    assert stands(later) == "t3"
