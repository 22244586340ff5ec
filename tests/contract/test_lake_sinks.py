"""What a sink in a lake keeps in one commit, on every kind of table: claims, fences, lost replies, refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from airflow_resume.errors import SinkBusyError, SinkError, SinkUnsafeError, SupersededError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.lake_position import LakeMovedError, LakePosition
from tests.support.sinks.lakes import TABLES, DeltaLake, Lake

TASK: list[Any] = ["loop", "dag", "run", "task", -1, "orders"]


def attempt(try_number: int) -> Claimant:
    return Claimant(owner="a task", try_number=try_number)


@pytest.fixture(params=TABLES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = TABLES[request.param](tmp_path)
    lake.make()
    return lake


@pytest.fixture
def claim(lake: Lake) -> Iterator[Callable[..., LakePosition]]:
    claimed: list[LakePosition] = []

    def claim_one(by: int | Claimant = 1, **options: Any) -> LakePosition:
        who = attempt(by) if isinstance(by, int) else by
        claimed.append(lake.sink(**{"patience": timedelta(seconds=1), **options}).claim(TASK, who))
        return claimed[-1]

    yield claim_one
    for position in claimed:
        position.close()


def add(position: LakePosition, *ids: int) -> None:
    position.connection.append([{"id": each, "name": f"flight {each}"} for each in ids])


# --- a commit -------------------------------------------------------------------------------------------------------


def test_rows_and_position_are_committed_together(claim: Any, lake: Lake) -> None:
    first = claim()
    assert first.position is None
    add(first, 1, 2)
    add(first, 3)
    assert lake.ids() == []
    first.commit({"n": 3})
    assert lake.ids() == [1, 2, 3]
    assert claim(2).position == {"n": 3}


def test_a_claim_and_each_commit_are_one_commit_of_the_table(claim: Any, lake: Lake) -> None:
    before = lake.commits()
    first = claim()
    for number in (1, 2, 3):
        add(first, number)
        add(first, number)
        first.commit(number)
    first.close()
    assert lake.commits() - before == 1 + 3


def test_a_position_moves_without_rows(claim: Any, lake: Lake) -> None:
    first = claim()
    first.commit(1)
    first.connection.append([])
    first.commit(2)
    assert lake.ids() == []
    assert claim(2).position == 2


def test_what_is_not_committed_is_not_there(claim: Any, lake: Lake) -> None:
    first = claim()
    add(first, 1)
    first.rollback()
    add(first, 2)
    first.commit(1)
    add(first, 3)
    first.close()
    assert lake.ids() == [2]


def test_a_block_that_fails_is_undone(claim: Any, lake: Lake) -> None:
    first = claim()
    add(first, 1)
    with pytest.raises(KeyError), first.savepoint():
        add(first, 2)
        raise KeyError
    with first.savepoint():
        add(first, 3)
    first.commit(1)
    assert lake.ids() == [1, 3]


def test_what_was_kept_for_later_takes_no_rows_after_the_end(claim: Any) -> None:
    first = claim()
    writer = first.connection
    first.close()
    with pytest.raises(SinkUnsafeError, match="is over"):
        writer.append([{"id": 1}])


def test_positions_of_two_loops_are_kept_apart(lake: Lake) -> None:
    loops = {name: lake.sink().claim(["loop", name], attempt(1)) for name in "ab"}
    for number, name in enumerate("abab"):
        add(loops[name], number)
        loops[name].commit(number)
    assert lake.ids() == [0, 1, 2, 3]
    assert {name: lake.sink().claim(["loop", name], attempt(2)).position for name in "ab"} == {"a": 2, "b": 3}


def test_others_may_append_at_the_same_time(claim: Any, lake: Lake) -> None:
    first = claim()
    for number in (1, 2, 3):
        lake.add_by_others(-number)
        add(first, number)
        first.commit(number)
    assert lake.ids() == [-3, -2, -1, 1, 2, 3]
    assert claim(2).position == 3


def test_two_loops_that_commit_at_once_lose_nothing(lake: Lake) -> None:
    def load(name: str, first: int) -> None:
        position = lake.sink().claim(["loop", name], attempt(1))
        for number in range(first, first + 10):
            add(position, number)
            position.commit(number)

    threads = [threading.Thread(target=load, args=(name, 100 * number)) for number, name in enumerate("abc")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert lake.ids() == [*range(10), *range(100, 110), *range(200, 210)]


# --- rows -----------------------------------------------------------------------------------------------------------

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
FORMS: dict[str, Callable[[], Any]] = {
    "a list of dicts": lambda: ROWS,
    "a tuple of dicts": lambda: tuple(ROWS),
    "a table": lambda: pa.Table.from_pylist(ROWS),
    "a table with columns in another order": lambda: pa.Table.from_pylist(ROWS).select(["name", "id"]),
    "a table with a narrower type": lambda: pa.Table.from_pylist(ROWS).set_column(0, "id", [pa.array([1, 2], "int8")]),
    "a record batch": lambda: pa.RecordBatch.from_pylist(ROWS),
    "a reader": lambda: pa.Table.from_pylist(ROWS).to_reader(),
    "batches": lambda: pa.Table.from_pylist(ROWS).to_batches(),
    "a frame of pandas": lambda: pa.Table.from_pylist(ROWS).to_pandas(),
    "a frame of polars": lambda: pl.DataFrame(ROWS),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_in_every_form(claim: Any, lake: Lake, form: str) -> None:
    first = claim()
    first.connection.append(FORMS[form]())
    first.commit(1)
    assert sorted(lake.rows(), key=lambda row: row["id"]) == ROWS


def test_a_column_that_is_not_given_is_null(claim: Any, lake: Lake) -> None:
    first = claim()
    first.connection.append(pa.table({"id": [1]}))
    first.connection.append([{"id": 2}])
    first.commit(1)
    assert sorted((row["id"], row["name"]) for row in lake.rows()) == [(1, None), (2, None)]


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "another column": (
        [{"id": 1}, {"id": 2, "nam": "x"}],
        ValueError,
        "has no column 'nam'.\nIts columns are id, name",
    ),
    "another column of a table": (pa.table({"idd": [1]}), ValueError, "has no column 'idd'"),
    "a named index": (pd.DataFrame({"id": [1]}, index=["x"]), ValueError, "has no column '__index_level_0__'"),
    "a value of another type": ([{"id": "x"}], (ValueError, TypeError), "x"),  # type: ignore[dict-item]
    "a value that is too long": (pa.table({"id": [1.5]}), ValueError, "would be another one there"),
    "one row": ({"id": 1}, TypeError, "has no rows"),
    "nothing": (None, TypeError, "NoneType"),
    "a text": ("x", TypeError, "str"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_rows_that_do_not_fit_are_refused_before_anything_is_kept(claim: Any, lake: Lake, wrong: str) -> None:
    rows, error, message = WRONG[wrong]
    first = claim()
    with pytest.raises(error, match=message):
        first.connection.append(rows)
    first.commit(1)
    assert lake.ids() == []


# --- who may commit -------------------------------------------------------------------------------------------------


def test_the_commit_of_a_replaced_attempt_fails_with_its_rows(claim: Any, lake: Lake) -> None:
    old = claim(1)
    old.commit(1)
    new = claim(2)
    add(old, 1, 2)
    with pytest.raises(SupersededError):
        old.commit(2)
    add(new, 6)
    new.commit(6)
    add(old, 1, 2)
    with pytest.raises(SupersededError):
        old.commit(3)
    assert lake.ids() == [6]
    assert claim(3).position == 6


def test_it_fails_also_when_its_successor_was_as_quick_and_came_to_the_same_number(claim: Any, lake: Lake) -> None:
    old, new = claim(1), claim(2)
    for number in range(4):
        add(new, number)
        new.commit(number)
    add(old, 9)
    with pytest.raises(SupersededError):
        old.commit(9)
    assert lake.ids() == [0, 1, 2, 3]


def test_an_attempt_that_is_late_claims_nothing(claim: Any, lake: Lake) -> None:
    claim(2).commit(7)
    before = lake.commits()
    with pytest.raises(SupersededError):
        claim(1)
    assert lake.commits() == before
    assert claim(3).position == 7


def test_of_many_that_claim_at_once_the_last_one_commits_and_the_others_commit_nothing(lake: Lake) -> None:
    outcomes: list[str] = []

    def run(number: int) -> None:
        try:
            position = lake.sink().claim(TASK, Claimant())
            for each in range(3):
                add(position, 10 * number + each)
                position.commit([*(position.position or []), number, each])
            outcomes.append("ended")
        except (SupersededError, SinkBusyError) as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert "ended" in outcomes
    assert len(lake.ids()) == len(set(lake.ids()))


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        self.now, self._happens = 0.0, list(happens)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._happens:
            self._happens.pop(0)()


@pytest.fixture
def run_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Clock], None]:
    """Have the sinks use this clock."""
    import airflow_resume.sinks.lake_position as module

    claim_in_lake = module.claim_in_lake

    def run_by(clock: Clock) -> None:
        def with_clock(table: Any, claimant: Any, **options: Any) -> LakePosition:
            return claim_in_lake(table, claimant, **options, monotonic=clock, sleep=clock.sleep)

        monkeypatch.setattr(module, "claim_in_lake", with_clock)

    return run_by


@pytest.fixture
def contending(lake: Lake, run_by: Callable[[Clock], None]) -> Callable[..., LakePosition]:
    def claim_at(policy: str, clock: Clock) -> LakePosition:
        run_by(clock)
        claimed: LakePosition = lake.sink(on_contention=policy, patience=timedelta(seconds=10)).claim(TASK, Claimant())
        return claimed

    return claim_at


def test_a_second_run_waits_until_the_first_has_ended(claim: Any, contending: Any) -> None:
    first = claim(Claimant(), on_contention="wait")
    clock = Clock(lambda: first.commit(1), lambda: first.commit(2), first.close)
    assert contending("wait", clock).position == 2


def test_a_second_run_fails_by_name_while_the_first_one_commits(claim: Any, contending: Any) -> None:
    first = claim(Claimant(), on_contention="fail")
    with pytest.raises(SinkBusyError, match=r"^Another run works on .*\nWait for its end"):
        contending("fail", Clock(lambda: first.commit(1)))
    first.commit(2)


@pytest.mark.parametrize("policy", ["wait", "fail"])
def test_a_run_that_says_nothing_for_as_long_as_one_waits_is_taken_for_dead(
    claim: Any, contending: Any, policy: str
) -> None:
    first, clock = claim(Claimant()), Clock()
    first.commit(1)
    second = contending(policy, clock)
    assert clock.now >= 10
    assert second.position == 1
    with pytest.raises(SupersededError):
        first.commit(2)


# --- others who always come first ---------------------------------------------------------------------------------


class PausesClock(Clock):
    """Notes how long was slept."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.pauses.append(seconds)


def busy(lake: Lake, patience: timedelta) -> tuple[Any, list[int]]:
    """A sink of a table in which others come first for as long as there is something in the list."""
    sink, others = lake.sink(patience=patience), list[int]()

    def commits(commit: Callable[[], None]) -> None:
        if others:
            others.append(-len(others))
            lake.add_by_others(others[-1])
            if isinstance(lake, DeltaLake):  # a commit to it goes through all the same
                raise CommitFailedError("others came first")
        commit()

    sink.commits = commits
    return sink, others


def test_a_commit_that_others_always_come_before_is_an_error_by_name_when_patience_ends(
    lake: Lake, run_by: Callable[[Clock], None]
) -> None:
    run_by(clock := PausesClock())
    sink, others = busy(lake, timedelta(seconds=10))
    position = sink.claim(TASK, attempt(1))
    add(position, 1)
    others.append(0)
    with pytest.raises(SinkBusyError, match=r"always committed .* for 10 s.*\nA retry .*patience=") as raised:
        position.commit(1)
    assert isinstance(raised.value.__cause__, LakeMovedError)
    assert 10 <= clock.now < 13
    assert len(clock.pauses) == len(set(clock.pauses)) == len(others) - 2
    assert max(clock.pauses) > 5 * clock.pauses[0]
    assert [each for each in lake.ids() if each > 0] == []
    others.clear()
    position.rollback()
    add(position, 1)
    position.commit(1)
    assert [each for each in lake.ids() if each > 0] == [1]


def test_so_is_a_claim(lake: Lake, run_by: Callable[[Clock], None]) -> None:
    run_by(clock := PausesClock())
    sink, others = busy(lake, timedelta(seconds=10))
    others.append(0)
    with pytest.raises(SinkBusyError, match="for 10 s"):
        sink.claim(TASK, attempt(1))
    assert 10 <= clock.now < 13


def test_a_commit_is_tried_again_also_without_patience(lake: Lake, run_by: Callable[[Clock], None]) -> None:
    run_by(PausesClock())
    sink, others = busy(lake, timedelta(microseconds=1))
    position = sink.claim(TASK, attempt(1))
    others.append(0)
    with pytest.raises(SinkBusyError):
        position.commit(1)
    assert len(others) == 3


# --- a reply that got lost ----------------------------------------------------------------------------------------


class LostReplyError(Exception):
    """Stands for what a client raises when the connection breaks."""


def broken(lake: Lake, *, applied: bool, error: BaseException) -> tuple[LakePosition, Callable[[], None]]:
    """A claimed position, and a function that breaks the next commit, after or before it takes place."""
    sink = lake.sink()
    breaks: list[bool] = []

    def commits(commit: Callable[[], None]) -> None:
        if not breaks:
            commit()
            return
        breaks.clear()
        if applied:
            commit()
        raise error

    sink.commits = commits
    return sink.claim(TASK, attempt(1)), lambda: breaks.append(True)


def test_a_commit_whose_reply_was_lost_counts_and_is_not_done_again(
    claim: Any, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    first, break_next = broken(lake, applied=True, error=LostReplyError("gone"))
    add(first, 1)
    break_next()
    first.commit(1)
    assert "its reply was lost" in caplog.text
    add(first, 2)
    first.commit(2)
    assert lake.ids() == [1, 2]
    assert claim(2).position == 2


def test_a_commit_that_did_not_take_place_raises_the_error_and_can_be_done_again(lake: Lake) -> None:
    first, break_next = broken(lake, applied=False, error=LostReplyError("gone"))
    add(first, 1)
    break_next()
    with pytest.raises(LostReplyError, match="gone"):
        first.commit(1)
    first.rollback()
    add(first, 1)
    first.commit(1)
    assert lake.ids() == [1]


@pytest.mark.parametrize("applied", [True, False])
def test_after_an_interruption_nothing_more_is_committed_as_nobody_knows_what_became_of_it(
    claim: Any, lake: Lake, *, applied: bool
) -> None:
    first, break_next = broken(lake, applied=applied, error=KeyboardInterrupt())
    add(first, 1)
    break_next()
    with pytest.raises(KeyboardInterrupt):
        first.commit(1)
    first.rollback()
    with pytest.raises(SinkError, match="not known"):
        first.commit(2)
    first.close()
    assert lake.ids() == ([1] if applied else [])
    assert claim(2).position == (1 if applied else None)


@pytest.mark.parametrize("applied", [True, False])
def test_so_is_a_claim_whose_reply_was_lost(lake: Lake, *, applied: bool) -> None:
    sink = lake.sink()

    def commits(commit: Callable[[], None]) -> None:
        sink.commits = lambda again: again()
        if applied:
            commit()
        raise LostReplyError

    sink.commits = commits
    with nullcontext() if applied else pytest.raises(LostReplyError):
        position = sink.claim(TASK, attempt(1))
        add(position, 1)
        position.commit(1)
    assert lake.ids() == ([1] if applied else [])


# --- a table that was restored ------------------------------------------------------------------------------------


def test_after_a_restore_the_position_is_that_of_the_rows(claim: Any, lake: Lake) -> None:
    empty = lake.mark()
    first = claim(1)
    add(first, 1)
    first.commit(1)
    mark = lake.mark()
    for number in (2, 3):
        add(first, number)
        first.commit(number)
    first.close()
    lake.restore(mark)
    second = claim(2)
    assert lake.ids() == [1]
    assert second.position == 1
    add(second, 2)
    second.commit(2)
    second.close()
    assert claim(3).position == 2
    lake.restore(empty)
    again = claim(4)
    assert again.position is None
    add(again, 1)
    again.commit(1)
    assert lake.ids() == [1]
    assert claim(5).position == 1


def test_nothing_is_looked_at_again_because_an_own_commit_was_not_noticed(lake: Lake) -> None:
    seen: list[str] = []
    sink = lake.sink(on_contention="wait")

    def commits(commit: Callable[[], None]) -> None:
        seen.append("commit")
        commit()

    sink.commits = commits
    position = sink.claim(TASK, attempt(1))
    look = position._lake.look

    def noted_look() -> Any:
        seen.append("look")
        return look()

    position._lake.look = noted_look
    for number in range(3):
        position.commit(number)
        add(position, number)
        position.commit(number)
    position.close()
    assert seen == ["commit"] * (1 + 6 + 1)
