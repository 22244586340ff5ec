"""Every snippet of docs/watermarks.md is run, and its tables name what there is."""

from __future__ import annotations

import re
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock
from zoneinfo import ZoneInfo

import pandas as pd
import psycopg
import psycopg2
import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import TaskDeferred
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from airflow_resume import errors
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks.commit import Outcome
from tests.support.backends.databases import schema_on_postgresql
from tests.support.watermarks.source_tables import filled, libpq

PAGE = (Path(__file__).parents[2] / "docs" / "watermarks.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)
WEST = ZoneInfo("America/Los_Angeles")


class Source:
    """What the page reads from and writes to."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.saved: list[Any] = []
        self.token = 0
        self.engine = create_engine("sqlite://", poolclass=StaticPool)

    def connect(self) -> Any:
        """A connection as psycopg2's, to a source with the rows."""
        cursor = MagicMock()
        cursor.__enter__.return_value = cursor
        cursor.fetchall.side_effect = lambda: self.rows
        made = type("connection", (MagicMock,), {"__module__": "psycopg2.extensions"})()
        made.__enter__.return_value = made
        made.cursor.return_value = cursor
        return made

    def query(self, _text: str, _parameters: Any) -> list[dict[str, Any]]:
        return self.rows

    def save(self, rows: Any) -> None:
        self.saved += list(rows)

    def note(self, *what: Any, **_: Any) -> None:
        self.saved.append(what)

    def read_feed(self, after: str) -> tuple[list[str], str]:
        self.token += 1
        return [f"after {after}"], f"token {self.token}"

    def fetch_readings(self, since: str, until: str) -> list[dict[str, Any]]:
        assert since < until
        return self.rows

    def fetch_tickets(self, since: str) -> list[dict[str, Any]]:
        assert since
        return self.rows


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def page(source: Source) -> dict[str, Any]:
    """The names that the snippets make, with a source that notes what is saved in place of the page's stand-ins."""
    return pasted(
        {
            "connect": source.connect,
            "connection": source.connect(),
            "query": source.query,
            "save": source.save,
            "replace": source.note,
            "load_report": source.note,
            "copy": source.note,
            "sum_up": source.note,
            "write_file": source.note,
            "move_file": source.note,
            "read_feed": source.read_feed,
            "min_active_rowversion": lambda: b"\0\0\0\0\0\0\7\xd2",
            "fetch_readings": source.fetch_readings,
            "fetch_tickets": source.fetch_tickets,
            "engine": source.engine,
            "start_export": lambda *_: 7,
            "ExportTrigger": lambda job: f"a trigger for {job}",
            "read_export": lambda _job: source.rows,
        }
    )


def pasted(stand_ins: dict[str, Any]) -> dict[str, Any]:
    """The names that a reader has who pasted the snippets as they are, one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for name, snippet in SNIPPETS.items():
            exec(snippet, names)  # noqa: S102  our own page
            if name == "stand_ins":
                names |= stand_ins
    return names


def attempt_of(name: str, **options: Any) -> TaskAttempt:
    return task_context(assets=[Asset(name)], **options)


def run(page: dict[str, Any], function: str, asset: str, world: World | None = None, **arguments: Any) -> TaskAttempt:
    attempt = attempt_of(asset, world=World() if world is None else world)
    with attempt:
        page[function].function(**arguments)
    return attempt


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS) > 0


def test_the_window(page: dict[str, Any], source: Source) -> None:
    before = datetime.now(tz=timezone.utc)
    attempt = run(page, "load", "orders")
    mark: Any = attempt.asset_stores[Asset("orders")].get("resume.watermark.watermark")
    assert datetime.fromisoformat(mark["at"]) >= before - timedelta(minutes=2)
    assert source.saved[0][0] == FIRST


def test_the_page_runs_as_it_is_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    names = pasted({})
    attempt = attempt_of("orders")
    run_next(names, "load", attempt)
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("replace ")]
    assert [line.partition("[")[2] for line in shown] == [f"{names['ROWS']}"[1:]]
    for function, asset in (("load_events", "events"), ("load_readings", "readings"), ("load_feed", "feed")):
        run(names, function, asset)
    run(names, "load_summary", "readings")
    run(names, "load_table", "tables", table="orders")


@pytest.mark.parametrize("driver", [psycopg2.connect, psycopg.connect])
def test_the_first_snippet_on_a_real_server(page: dict[str, Any], source: Source, driver: Any) -> None:
    with schema_on_postgresql() as url:
        page["connect"] = lambda: driver(libpq(url, "UTC"))
        with filled(url, "timestamptz", table="orders", column="updated_at") as write:
            write({1: "2026-01-01 00:00Z", 2: "2025-12-31 23:59Z"})
            run(page, "load_from_database", "orders")
    assert [row[0] for row in source.saved[0][2]] == [1]


def days_until_yesterday() -> int:
    return (datetime.now(tz=WEST).date() - timedelta(days=1) - FIRST.date()).days


def test_days(page: dict[str, Any], source: Source) -> None:
    before = days_until_yesterday()
    run(page, "load_days", "reports")
    assert source.saved[0] == (FIRST.date(),)
    assert before <= len(source.saved) <= days_until_yesterday()


def test_time_zones(page: dict[str, Any], source: Source) -> None:
    run(page, "load_sales", "sales")
    first, last = source.saved[0], source.saved[-1]
    assert first == (datetime(2026, 1, 1), datetime(2026, 1, 2))  # noqa: DTZ001
    assert {end - start for start, end in source.saved[:-1]} == {timedelta(days=1)}
    assert last[1] <= datetime.now(tz=WEST).replace(tzinfo=None) - timedelta(minutes=2)


def test_identifiers(page: dict[str, Any], source: Source) -> None:
    source.rows = [{"changed": b"\0\0\0\0\0\0\7\xd1"}]
    attempt = run(page, "load_accounts", "accounts")
    mark: Any = attempt.asset_stores[Asset("accounts")].get("resume.watermark.watermark")
    assert (mark["at"], source.saved) == ("00000000000007d2", source.rows)


def test_ids(page: dict[str, Any], source: Source) -> None:
    world = World()
    source.rows = [{"id": 3}, {"id": 5}]
    attempt = run(page, "load_events", "events", world)
    mark: Any = attempt.asset_stores[Asset("events")].get("resume.watermark.watermark")
    assert mark["at"] == "5"
    assert source.saved == source.rows


def test_what_was_seen(page: dict[str, Any], source: Source) -> None:
    source.rows = [{"id": 1, "measured_at": FIRST + timedelta(hours=1)}]
    attempt = run(page, "load_readings", "readings")
    mark: Any = attempt.asset_stores[Asset("readings")].get("resume.watermark.watermark")
    assert mark["at"] == (FIRST + timedelta(hours=1)).isoformat()


def test_a_change_in_the_moment_of_the_mark(page: dict[str, Any], source: Source) -> None:
    attempt = attempt_of("tickets")
    for revision in (1, 1, 2):
        source.rows = [{"id": 1, "updated_at": FIRST + timedelta(hours=1), "revision": revision}]
        attempt = run_next(page, "load_tickets", attempt)
    assert [row["revision"] for row in source.saved] == [1, 2]


def test_nothing_was_seen(page: dict[str, Any], source: Source) -> None:
    source.rows = [{"id": 1, "measured_at": FIRST + timedelta(hours=1)}]
    second = run_next(page, "load_summary", attempt_of("readings"))
    source.rows = []
    run_next(page, "load_summary", second)
    mark: Any = second.asset_stores[Asset("readings")].get("resume.watermark.watermark")
    assert mark["at"] == (FIRST + timedelta(hours=1)).isoformat()
    assert len(source.saved) == 1


def test_frames(page: dict[str, Any], source: Source) -> None:
    attempt, got = attempt_of("receipts"), []
    ids: list[int | None] = [1, 2, None]
    more: dict[str, list[int]] = {"load_receipts": [], "load_receipts_in_parts": [4, 5]}
    for function, new in more.items():
        ids += new
        frame = pd.DataFrame({"id": pd.array(ids, dtype="Int64")})
        frame.to_sql("receipts", source.engine, index=False, if_exists="replace")
        attempt = run_next(page, function, attempt)
        got.append([row["id"] for row in source.saved])
        source.saved.clear()
    assert got == [[1, 2], [4, 5]]


def run_next(page: dict[str, Any], function: str, attempt: TaskAttempt) -> TaskAttempt:
    """Let the attempt succeed; that of the next run."""
    with attempt:
        page[function].function()
    attempt.succeed()
    return attempt.next_run()


def test_deferral(page: dict[str, Any], source: Source) -> None:
    world = World()
    source.rows = [{"id": 1, "measured_at": FIRST + timedelta(hours=1)}]
    attempt = task_context(lambda: page["LoadExport"](task_id="load"), world=world)
    with attempt, pytest.raises(TaskDeferred) as deferred:
        attempt.ti.task.execute(attempt.context)
    resumed = attempt.reschedule()
    with resumed:
        kwargs = {**deferred.value.kwargs, "event": "done"}  # type: ignore[dict-item]
        resumed.ti.task.resume_execution(deferred.value.method_name, kwargs, resumed.context)
    mark: Any = resumed.asset_stores[Asset("readings")].get("resume.watermark.watermark")
    assert (mark["at"], source.saved) == ((FIRST + timedelta(hours=1)).isoformat(), source.rows)


def test_several_columns(page: dict[str, Any], source: Source) -> None:
    source.rows = [{"id": 1, "changed_at": FIRST}, {"id": 2, "changed_at": FIRST}]
    attempt = run(page, "load_changes", "changes")
    mark: Any = attempt.asset_stores[Asset("changes")].get("resume.watermark.watermark")
    assert mark["at"] == [FIRST.isoformat(), "2"]


def test_tokens(page: dict[str, Any], source: Source) -> None:
    attempt = run(page, "load_feed", "feed")
    mark: Any = attempt.asset_stores[Asset("feed")].get("resume.watermark.watermark")
    assert (mark["at"], source.saved) == ("token 1", ["after start"])


def test_partitions(page: dict[str, Any], source: Source) -> None:
    attempt = run(page, "load_table", "tables", table="orders")
    assert list(attempt.asset_stores[Asset("tables")].values) == ["resume.watermark.watermark~~orders"]
    assert source.saved[0][0] == "orders"


def test_over_several_tasks_and_for_consumers(page: dict[str, Any], source: Source) -> None:
    attempt = attempt_of("orders")
    with attempt:
        token = page["extract"].function()
        page["publish"].function(token)
    mark: Any = attempt.asset_stores[Asset("orders")].get("resume.watermark.watermark")
    assert mark["at"] == token["new"]
    assert len(source.saved) == 2


def test_two_assets_in_one_task(page: dict[str, Any], source: Source) -> None:
    attempt = task_context(assets=[Asset("orders"), Asset("customers")])
    with attempt:
        page["load_both"].function()
    assert [saved[:2] for saved in source.saved] == [("orders", FIRST), ("customers", FIRST)]


def test_the_mixin(page: dict[str, Any], source: Source) -> None:
    operator = page["LoadOrders"](task_id="load")
    assert [asset.name for asset in operator.inlets] == [asset.name for asset in operator.outlets] == ["orders"]
    assert operator.max_active_tis_per_dag == 1
    with attempt_of("orders") as attempt:
        operator.execute(attempt.context)
    assert source.saved[0][0] == FIRST


def test_every_error_and_outcome_is_on_the_page() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.WatermarkError) and kind is not errors.WatermarkError:
            assert f"`{name}`" in PAGE
    for outcome in set(Outcome) - {Outcome.JUMPED, Outcome.REFUSED, Outcome.EMPTY}:
        assert f"`{outcome.value}`" in PAGE
