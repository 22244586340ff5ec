"""Every snippet of docs/watermark-databases.md is run, against the real server, in sessions of three time zones."""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import airflow.sdk
import psycopg
import psycopg2  # type: ignore[import-untyped]
import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import Asset

import airflow_resume
from airflow_resume import watermark
from airflow_resume.testing import task_context
from airflow_resume.watermarks import Watermark
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql
from tests.support.watermarks.source_tables import SESSIONS, connected, filled, libpq, local, mysql_arguments, nights

PAGE = (Path(__file__).parents[2] / "docs" / "watermark-databases.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
FIRST = datetime(2025, 10, 25, 20, tzinfo=timezone.utc)


class Source:
    """What a snippet reads from and saves to, and the time there."""

    def __init__(self) -> None:
        self.now = FIRST
        self.saved: list[Any] = []

    def save(self, rows: Any) -> None:
        self.saved += list(rows)

    def watermark(self, asset: Asset, **options: Any) -> Watermark[Any]:
        """The page's, over known windows; the clock that it names is tried as well."""
        if isinstance(options["initial"], str) and options["initial"]:
            told = options.pop("now", lambda: datetime.now(timezone.utc))
            options |= {"initial": FIRST, "delay": timedelta(0), "now": lambda: told() and self.now}
        return watermark(asset, **options)

    @property
    def counted(self) -> Counter[int]:
        return Counter(row.id if hasattr(row, "id") else row[0] for row in self.saved)


class PostgresHook(DbApiHook):
    """As Airflow's, whose provider is not installed here: `%s`, on psycopg2."""

    conn_name_attr = "postgres_conn_id"
    placeholder = "%s"
    supports_autocommit = True
    dsn = ""

    def get_conn(self) -> Any:
        return psycopg2.connect(self.dsn)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    monkeypatch.setattr(airflow_resume, "watermark", made.watermark)
    monkeypatch.setattr(airflow.sdk.BaseHook, "get_hook", PostgresHook)
    for name in ("postgres", "postgres.hooks", "postgres.hooks.postgres"):
        monkeypatch.setitem(sys.modules, f"airflow.providers.{name}", ModuleType(name))
    sys.modules["airflow.providers.postgres.hooks.postgres"].PostgresHook = PostgresHook  # type: ignore[attr-defined]
    return made


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with schema_on_postgresql() as url:
        yield url


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    with database_on_mysql() as url:
        yield url


def page(source: Source, snippet: str, **places: Any) -> SimpleNamespace:
    """The names that the page's first snippet, whose imports the others use, and another one make."""
    names: dict[str, Any] = {"__name__": "page", "save": source.save, "DSN": "", **places}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in dict.fromkeys(["psycopg", snippet]):
            exec(compile(SNIPPETS[each], "page", "exec", dont_inherit=True), names)  # noqa: S102  our own page
    return SimpleNamespace(**names)


def load_all(source: Source, url: str, names: Any, recipe: Any) -> None:
    """Let the task run while rows come in."""
    _, function, asset, declared, write = recipe
    task, moments = getattr(names, function), nights()
    stops = [FIRST + timedelta(minutes=23 * number) for number in range(30)]
    attempt = task_context(assets=[Asset(asset)])
    waiting = dict(enumerate(moments))
    with filled(url, declared, table="orders", column="updated_at") as insert:
        for source.now in [*stops, moments[-1] - timedelta(hours=2), moments[-1] + timedelta(days=1)]:
            come = {number: write(waiting.pop(number)) for number in list(waiting) if waiting[number] <= source.now}
            if come:
                insert(come)
            with attempt:
                task.function()
            attempt.succeed()
            attempt = attempt.next_run()


ON_POSTGRESQL = [
    ("psycopg", "load_by_psycopg", "orders", "timestamptz", lambda t: t.isoformat()),
    ("psycopg2", "load_by_psycopg2", "berlin_orders", "timestamp", lambda t: str(local(t))),
    ("hook", "load_by_hook", "hook_orders", "timestamptz", lambda t: t.isoformat()),
    ("sqlalchemy", "load_by_sqlalchemy", "mapped_orders", "timestamptz", lambda t: t.isoformat()),
    ("sqlalchemy", "load_by_text", "mapped_orders", "timestamptz", lambda t: t.isoformat()),
]
ON_MARIADB = [
    ("pymysql", "load_by_pymysql", "datetime_orders", "DATETIME(6)", lambda t: str(local(t))),
    ("mysql_connector", "load_by_mysql_connector", "timestamp_orders", "TIMESTAMP(6)", lambda t: str(t)[:-6]),
]


@pytest.mark.parametrize("zone", SESSIONS)
@pytest.mark.parametrize("recipe", ON_POSTGRESQL, ids=lambda recipe: recipe[1])
def test_on_postgresql_every_row_is_loaded_exactly_once(
    source: Source, postgresql: str, recipe: Any, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = libpq(postgresql, zone)
    monkeypatch.setattr(PostgresHook, "dsn", dsn)
    with connected(postgresql, "postgresql+psycopg", zone) as connection:
        names = page(source, recipe[0], DSN=dsn, URL=connection.engine.url)
    load_all(source, postgresql, names, recipe)
    if hasattr(names, "engine"):
        names.engine.dispose()
    assert source.counted == dict.fromkeys(range(len(nights())), 1)


@pytest.mark.parametrize("zone", SESSIONS)
@pytest.mark.parametrize("recipe", ON_MARIADB, ids=lambda recipe: recipe[1])
def test_on_mariadb_every_row_is_loaded_exactly_once(source: Source, mariadb: str, recipe: Any, zone: str) -> None:
    place = {**mysql_arguments(mariadb), "init_command": f"SET time_zone = '{SESSIONS[zone]}'"}
    names = page(source, recipe[0], PLACE=place)
    load_all(source, mariadb, names, recipe)
    assert source.counted == dict.fromkeys(range(len(nights())), 1)


def test_on_sqlite_every_row_is_loaded_exactly_once(source: Source, tmp_path: Path) -> None:
    names = page(source, "sqlite", FILE=tmp_path / "source.db")
    url = f"sqlite:///{tmp_path}/source.db"
    recipe = ("sqlite", "load_by_sqlite", "text_orders", "TEXT", lambda t: f"{t:%Y-%m-%d %H:%M:%S}")
    load_all(source, url, names, recipe)
    assert source.counted == dict.fromkeys(range(len(nights())), 1)


def test_text_in_the_order_of_code_points(source: Source, postgresql: str) -> None:
    dsn = libpq(postgresql, "UTC")
    task = page(source, "text", DSN=dsn).load_by_name
    attempt, words = task_context(assets=[Asset("customers")]), sorted(["a", "B", "ä", "A2", "C", "é"])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute('CREATE TABLE customers (name text COLLATE "en-x-icu")')
        for word in words:
            connection.execute("INSERT INTO customers VALUES (%s)", [word])
            with attempt:
                task.function()
            attempt.succeed()
            attempt = attempt.next_run()
        connection.execute("DROP TABLE customers")
    assert [row[0] for row in source.saved] == words


def test_two_marks_in_one_query(source: Source, postgresql: str) -> None:
    dsn = libpq(postgresql, "UTC")
    names = page(source, "join", DSN=dsn)
    source.now = FIRST + timedelta(days=1)
    windows = [
        source.watermark(Asset(name), initial="2026", sql=names.SqlColumn("timestamptz")).begin(
            task_context(assets=[Asset(name)]).context
        )
        for name in ("orders", "customers")
    ]
    inside, outside = "2025-10-25 21:00Z", "2025-10-25 19:00Z"
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TEMP TABLE orders AS SELECT 1 AS id, %s::timestamptz AS updated_at", [inside])
        connection.execute("CREATE TEMP TABLE customers AS SELECT 1 AS id, %s::timestamptz AS updated_at", [outside])
        assert len(names.changed_since(*windows, connection)) == 1
        connection.execute("UPDATE orders SET updated_at = %s", [outside])
        assert names.changed_since(*windows, connection) == []


def test_the_page_is_read_as_it_is_pasted(source: Source) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for snippet in SNIPPETS.values():
        exec(compile(snippet, "page", "exec", dont_inherit=True), names)  # noqa: S102  our own page
    assert names["watermark"] == source.watermark
    assert {"DSN", "URL", "PLACE", "FILE", "save"} <= set(names)


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    run = {recipe[0] for recipe in [*ON_POSTGRESQL, *ON_MARIADB]} | {"sqlite", "text", "join"}
    assert set(SNIPPETS) == run | {"settings"}
    assert PAGE.count("```python") == len(SNIPPETS)


@pytest.mark.parametrize("told", sorted(set(re.findall(r'SqlColumn\("[^)]*\)', PAGE))))
def test_every_column_on_the_page_is_one(told: str) -> None:
    assert eval(told, {"SqlColumn": airflow_resume.watermarks.SqlColumn})  # noqa: S307  our own page
