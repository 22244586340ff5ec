"""A queue in a table of PostgreSQL, drained by a loop on a real Airflow: its body deletes what it has done.

Others delete, insert and update rows meanwhile. Every row that is there until the loop comes to it is delivered,
whatever kills the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import make_url

from stage import Stage
from tests.support.airflow.loop_runs import LoopRun
from tests.support.backends.databases import ask, schema_on_postgresql

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing")]

STEP = 10
"""Between two ids."""
ROWS, PAGE = 300, 50
PLACES = [30, 49, 50, 133, 275]
"""How many rows are before those at which the task is killed: within a page, at the end of one, at the start of one."""


@contextmanager
def queue_of(ids: range) -> Iterator[str]:
    with schema_on_postgresql() as url:
        ask(url, "CREATE TABLE queue (id bigint PRIMARY KEY, seen int NOT NULL DEFAULT 0)")
        ask(url, f"INSERT INTO queue SELECT generate_series({ids[0]}, {ids[-1]}, {ids.step})")
        yield url


def left_in(url: str) -> list[Any]:
    found: Any = ask(url, "SELECT id FROM queue ORDER BY id")
    return list(found)


def for_psycopg(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.mark.parametrize("lot", [1, 7], ids=["each when it is done", "seven at a time"])
def test_a_queue_that_is_drained_loses_no_row_in_five_kills(shared_stage: Stage, lot: int) -> None:
    ids = range(0, ROWS * STEP, STEP)
    with queue_of(ids) as url:
        run = LoopRun.start(
            shared_stage,
            "loops_draining",
            url=for_psycopg(url),
            page=PAGE,
            lot=lot,
            interval=0.05,
            pace=0.002,
            holds=[["loop", place * STEP] for place in PLACES],
        )
        for number in range(len(PLACES)):
            run.kill_at(number)
        assert run.end() == "success"
        attempts = run.delivered().attempts
        again = [len(set(before) & set(after)) for before, after in pairwise(attempts)]
        print(run.dag_id, f"lot={lot}", f"again={again}", f"left={len(left_in(url))}")
        assert set(ids) - set(run.elements()) == set(), "lost"
        assert [attempt[-1] for attempt in attempts[:-1]] == [place * STEP for place in PLACES]
        assert all(attempt == sorted(set(attempt)) for attempt in attempts), "in order, and none twice in an attempt"
        # What was deleted cannot come again, so only the element in hand does, and what was not deleted yet.
        assert max(again) <= lot
        # A row that was done and saved as done, in a lot that was not deleted yet, is nobody's any more.
        assert len(left_in(url)) <= len(PLACES) * (lot - 1)


def test_nor_does_one_that_others_change_while_nobody_looks(shared_stage: Stage) -> None:
    """At every kill, rows before and after the place are deleted, rows after it are inserted, and rows are updated."""
    ids = range(0, ROWS * STEP, STEP)
    with queue_of(ids) as url:
        run = LoopRun.start(
            shared_stage,
            "loops_draining",
            url=for_psycopg(url),
            page=PAGE,
            lot=1,
            durability="sync",
            holds=[["loop", place * STEP] for place in PLACES],
        )
        gone, inserted = set[int](), set[int]()
        for number, place in enumerate(PLACES):
            run.until_held(number)
            behind = {(place + 2) * STEP, (place + 3) * STEP}
            ask(url, f"DELETE FROM queue WHERE id = ANY(ARRAY{sorted(behind)})")  # noqa: S608
            ask(url, f"UPDATE queue SET seen = seen + 1 WHERE id > {place * STEP}")  # noqa: S608
            new = place * STEP + 5
            ask(url, f"INSERT INTO queue (id) VALUES ({new})")  # noqa: S608
            gone |= behind
            inserted.add(new)
            run.process.kill()
        assert run.end() == "success"
        delivered = run.elements()
        assert (set(ids) - gone | inserted) - set(delivered) == set(), "lost"
        assert left_in(url) == []
        attempts = run.delivered().attempts
        again = [len(set(before) & set(after)) for before, after in pairwise(attempts)]
        assert max(again) <= 1
