"""What earlier runs noted about a mark, and what a run may take for the first one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume.errors import WatermarkInputError
from airflow_resume.testing import FakeTaskStore, task_context
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.marks.journal import Journal, JournalLine
from tests.support.kit.raised import having
from tests.support.watermarks.hourly_orders import ORDERS, START, Clock, at, orders

KEYS = Keys.of(asset="orders", name="watermark")
OLD = "resume.watermark.watermark"


class Earlier:
    """A `ti` that sees the XComs of the earlier runs of some tasks, as that of Airflow 3.3 does: in no order."""

    def __init__(self, notes: dict[str, list[Any]], key: str = KEYS.note) -> None:
        self.task_id = "load"
        self.notes, self.key = notes, key

    def xcom_push(self, key: str, value: Any) -> None:
        assert key == self.key
        self.notes.setdefault(self.task_id, []).append(value)

    def xcom_pull(self, task_ids: list[str], key: str, *, include_prior_dates: bool) -> list[Any]:
        assert include_prior_dates
        found = [note for task_id in task_ids for note in self.notes.get(task_id) or [None]]
        return found if key == self.key else [None]


def journal(ti: Any, *tasks: tuple[str, list[Any]]) -> Journal:
    dag = SimpleNamespace(tasks=[SimpleNamespace(task_id=task_id, outlets=outlets) for task_id, outlets in tasks])
    return Journal(context={"ti": ti, "dag": dag}, asset=ORDERS, keys=KEYS, store=FakeTaskStore())


def minute(number: int) -> datetime:
    return datetime(2026, 5, 1, 12, number, tzinfo=timezone.utc)


def test_the_note_that_was_written_last_counts() -> None:
    ti = Earlier({})
    for value, when in (("a", 1), ("b", 3), ("c", 2)):
        journal(ti).note(value, minute(when))
    assert journal(ti).last() == JournalLine(at="b")


def test_a_window_may_have_been_committed_by_another_task_of_the_dag_with_the_asset_among_its_outlets() -> None:
    notes = {"commit": [{"at": "a", "when": "1"}], "other": [{"at": "b", "when": "2"}]}
    told = journal(Earlier(notes), ("load", [ORDERS]), ("commit", [ORDERS]), ("other", [])).last()
    assert told == JournalLine(at="a")


@pytest.mark.parametrize("notes", [{}, {"load": ["something else"]}])
def test_where_nothing_was_noted_there_is_none(notes: dict[str, list[Any]]) -> None:
    assert journal(Earlier(notes)).last() is None


def test_a_note_of_0_1_counts_where_it_can_only_be_of_this_asset() -> None:
    notes = {"load": [{"at": "a", "when": "1"}]}
    assert journal(Earlier(notes, key=OLD), ("load", [ORDERS])).last() == JournalLine(at="a")
    assert journal(Earlier(notes, key=OLD), ("load", [ORDERS, Asset("customers")])).last() is None


def test_a_first_window_that_is_loaded_again_is_the_first_no_longer() -> None:
    """A body that empties its table at first would lose what the runs since have loaded."""
    first, clock = task_context(assets=[ORDERS], run_id="first"), Clock(1)
    with pytest.raises(KeyError), orders(clock).open(first.context) as window:
        assert window.is_initial
        raise KeyError
    failed = first.retry()
    second = task_context(assets=[ORDERS], world=first.world, run_id="second")
    clock.hour = 2
    with orders(clock).open(second.context) as window:
        assert window.is_initial
    second.succeed()
    with orders(clock).open(failed.clear().context) as window:
        assert (window.start, window.end, window.is_retry, window.is_initial) == (at(0), at(1), True, False)
    replay = second.clear()
    with orders(clock).open(replay.context) as window:
        assert (window.is_replay, window.is_initial) == (True, False)


@pytest.mark.parametrize("length", [timedelta(0), timedelta(hours=-1)])
def test_a_backfill_whose_data_interval_is_empty_says_which_schedule_has_one(length: timedelta) -> None:
    attempt = task_context(assets=[ORDERS])
    run = SimpleNamespace(conf={}, run_type="backfill")
    interval = {"data_interval_start": START, "data_interval_end": START + length}
    with pytest.raises(WatermarkInputError, match="CronDataIntervalTimetable", check=having(given="window")):
        orders(Clock(1)).begin({**attempt.context, "dag_run": run, **interval})
