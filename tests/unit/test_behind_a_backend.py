"""Records behind a worker's state backend that is in trouble: an error by name, and nothing done for lack of one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import checkpoint, run_job
from airflow_resume.channel import InlineChannel
from airflow_resume.errors import (
    BackendSettingError,
    CodecError,
    DanglingReferenceError,
    MissingDriverError,
    StateReferenceError,
    StoreUnavailableError,
    UnreadableRecordError,
    WatermarkLostError,
)
from airflow_resume.jobs import JobRun
from airflow_resume.store import AirflowStore, MemoryStore
from airflow_resume.testing import FakeJobs, TaskAttempt
from airflow_resume.watermarks import AsyncWatermark
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, WINDOW, a_try, break_down, load, numbers, track

REFERENCE: Any = {"__airflow_state_ref__": "airflow-resume:1:a:b:c"}
TROUBLE = [DanglingReferenceError, StateReferenceError, StoreUnavailableError, MissingDriverError, CodecError]

in_trouble = pytest.mark.parametrize("trouble", TROUBLE)


class Behind(MemoryStore):
    """What was written is behind references that cannot be followed."""

    def __init__(self, trouble: type[Exception]) -> None:
        super().__init__()
        self.trouble = trouble

    def get(self, key: str, default: Any = None) -> Any:
        if key in self.values:
            raise self.trouble
        return default


def behind(trouble: type[Exception], key: str) -> Behind:
    store = Behind(trouble)
    store.set(key, "there was one")
    return store


# --- loops ----------------------------------------------------------------------------------------------------


@in_trouble
def test_a_loop_delivers_and_writes_nothing(trouble: type[Exception]) -> None:
    store, delivered = behind(trouble, "resume.loop.l"), list[int]()
    with pytest.raises(trouble):
        delivered.extend(checkpoint(range(3), name="l", store=store))
    assert (delivered, store.values) == ([], {"resume.loop.l": "there was one"})


def test_a_loop_that_may_start_over_when_its_record_is_unreadable_does_so_when_it_is_lost() -> None:
    store = behind(DanglingReferenceError, "resume.loop.l")
    assert list(checkpoint(range(3), name="l", on_unreadable="restart", store=store)) == [0, 1, 2]
    record: Any = store.values["resume.loop.l"]
    assert record["n"] == 3


@pytest.mark.parametrize("trouble", TROUBLE[1:])
def test_a_record_that_another_worker_may_be_able_to_read_is_not_started_over(trouble: type[Exception]) -> None:
    store = behind(trouble, "resume.loop.l")
    with pytest.raises(trouble):
        list(checkpoint(range(3), name="l", on_unreadable="restart", store=store))


# --- jobs -----------------------------------------------------------------------------------------------------


@in_trouble
def test_a_job_is_not_submitted_a_second_time(trouble: type[Exception]) -> None:
    store, jobs = behind(trouble, "resume.job.job"), FakeJobs()
    with pytest.raises(trouble):
        run_job(jobs, store=store)
    assert (jobs.most_alive, store.values) == (0, {"resume.job.job": "there was one"})


def test_who_is_to_begin_anew_is_told_that_a_job_may_be_alive() -> None:
    with pytest.raises(DanglingReferenceError, match="that no job of an earlier attempt is alive"):
        run_job(FakeJobs(), store=behind(DanglingReferenceError, "resume.job.job"))


@pytest.mark.parametrize("trouble", [CodecError, DanglingReferenceError, StateReferenceError, UnreadableRecordError])
def test_a_reference_is_enough_for_a_killed_attempt_to_know_that_it_was_not_replaced(trouble: type[Exception]) -> None:
    run = JobRun(FakeJobs(scripts=[["SUCCEEDED"]]), store=Behind(trouble))
    run.run()
    assert run._slot.is_visible()


# --- watermarks -----------------------------------------------------------------------------------------------


def a_run_after_one_that_loaded(*, until: int | None) -> TaskAttempt:
    """Its mark was moved, or only made, and is behind a reference to nothing."""
    first = a_try()
    _ = break_down(first, numbers()) if until is None else load(first, numbers(), track(until))
    second = first.next_run()
    lose(second.asset_stores[NUMBERS], MARK)
    return second


def lose(store: Any, key: str, trouble: type[Exception] = DanglingReferenceError) -> None:
    """Until it is written again."""
    found, keep = store.get, store.set

    def get(asked: str, default: Any = None) -> Any:
        if asked == key:
            raise trouble
        return found(asked, default)

    def write(written: str, value: Any, **options: Any) -> None:
        if written == key:
            store.get = found
        keep(written, value, **options)

    store.get, store.set = get, write


def test_a_mark_that_is_lost_is_an_error_that_says_where_it_stood() -> None:
    second = a_run_after_one_that_loaded(until=7)
    with pytest.raises(WatermarkLostError, match=r"stood at .7.") as raised:
        load(second, numbers())
    assert isinstance(raised.value, AirflowFailException)
    assert isinstance(raised.value.__cause__, DanglingReferenceError)


@pytest.mark.parametrize(("on_missing", "start"), [("recover", 7), ("initial", 0)])
def test_a_mark_that_is_lost_follows_the_policy_for_a_missing_one(on_missing: Any, start: int) -> None:
    second = a_run_after_one_that_loaded(until=7)
    assert load(second, numbers(on_missing=on_missing), track()).start == start


def test_a_mark_that_is_lost_while_a_run_loads_stays_lost_and_the_run_succeeds() -> None:
    """As one that was deleted meanwhile: the next run finds that out, and follows the policy."""
    first, mark = a_try(), numbers()
    with mark.open(first.context) as window:
        track(7)(window)
        lose(first.asset_stores[NUMBERS], MARK)
    with pytest.raises(DanglingReferenceError):
        first.asset_stores[NUMBERS].get(MARK)


@pytest.mark.parametrize("on_missing", ["fail", "recover"])
def test_a_mark_that_is_lost_is_not_taken_for_one_that_never_was(on_missing: Any) -> None:
    second = a_run_after_one_that_loaded(until=None)
    with pytest.raises(WatermarkLostError, match="No event of asset 'numbers' says where the mark stood"):
        load(second, numbers(on_missing=on_missing))


@in_trouble
def test_a_window_that_cannot_be_read_is_not_begun_anew(trouble: type[Exception]) -> None:
    first = a_try()
    break_down(first, numbers())
    second = first.retry()
    lose(second.task_store, WINDOW, trouble)
    with pytest.raises(trouble):
        load(second, numbers())


# --- a worker without the backend -----------------------------------------------------------------------------


def test_a_value_behind_a_backend_that_this_worker_lacks_is_not_taken_for_the_value() -> None:
    accessor = MemoryStore()
    accessor.set("k", REFERENCE)
    store = AirflowStore(accessor=accessor, refused=AssertionError, options={}, find_channel=InlineChannel)
    with pytest.raises(BackendSettingError, match=r"'k'.*this worker has none.*\nSet \[workers\] state_store"):
        store.get("k")


@pytest.mark.parametrize("empty", ["", 0, None, False, [], {}])
def test_an_empty_reference_is_not_blamed_on_the_worker(empty: Any) -> None:
    """Airflow asks no backend for it, and answers with what stands there."""
    accessor = MemoryStore()
    accessor.set("k", {"__airflow_state_ref__": empty})
    store = AirflowStore(accessor=accessor, refused=AssertionError, options={}, find_channel=InlineChannel)
    with pytest.raises(StateReferenceError, match=r"'k' is \{'__airflow_state_ref__'.*by hand.*\n.*delete the key"):
        store.get("k")


# --- triggers -------------------------------------------------------------------------------------------------


class OfTrigger:
    """The asset's state as a trigger has it, away for some calls."""

    def __init__(self, value: Any = None, *, away: int = 0) -> None:
        self.value, self.away = value, away

    def _answer(self) -> None:
        self.away -= 1
        if self.away >= 0:
            raise StoreUnavailableError

    async def aget(self, _key: str, default: Any = None) -> Any:
        self._answer()
        return default if self.value is None else self.value

    async def aset(self, _key: str, value: Any) -> None:
        self._answer()
        self.value = value


def test_a_trigger_does_not_take_a_reference_for_a_mark() -> None:
    with pytest.raises(BackendSettingError, match="this worker has none"):
        asyncio.run(AsyncWatermark[int](OfTrigger(REFERENCE), initial=0).at())


def test_a_trigger_waits_for_a_backend_that_is_away_and_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    store = OfTrigger(away=3)
    assert asyncio.run(AsyncWatermark[int](store, initial=7).at()) == 7
    assert (len(waits), store.value["at"]) == (3, "7")
