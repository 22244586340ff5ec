"""How a sink finds its database, which it does not look for before it is used."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, make_url

from airflow_resume.compat import BaseHook
from airflow_resume.errors import SinkUnsafeError
from airflow_resume.sinks import SqlSink
from airflow_resume.sinks.databases import DATABASES


def test_the_hook_of_a_connection_makes_the_engine_when_it_is_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    engine = create_engine("sqlite://")

    def get_hook(conn_id: str) -> object:
        asked.append(conn_id)
        return SimpleNamespace(get_sqlalchemy_engine=lambda: engine)

    monkeypatch.setattr(BaseHook, "get_hook", get_hook)
    sink = SqlSink.from_conn_id("warehouse", table="positions")
    assert asked == []
    assert sink.engine is sink.engine is engine
    assert asked == ["warehouse"]
    assert sink.positions.name == "positions"


@pytest.mark.parametrize("given", ["sqlite:///x.db", make_url("sqlite:///x.db"), create_engine("sqlite:///x.db")])
def test_an_engine_and_a_url_are_taken(given: object) -> None:
    assert SqlSink(given).target == "sqlite:///x.db"  # type: ignore[arg-type]


def test_a_password_is_not_shown() -> None:
    sink = SqlSink("postgresql+psycopg://etl:secret@warehouse/dwh")
    assert sink.target == "postgresql://warehouse/dwh"
    assert "secret" not in repr(sink)


def test_a_database_that_was_not_tested_is_refused() -> None:
    engine = SimpleNamespace(connect=None, dialect=SimpleNamespace(name="oracle"))
    with pytest.raises(SinkUnsafeError, match=r"'oracle' .* was not tested") as raised:
        _ = SqlSink(engine).engine  # type: ignore[arg-type]
    assert raised.value.problem == "database"


CODE = """
import sys
import airflow_resume.errors  # Airflow itself loads SQLAlchemy here
before = set(sys.modules)
from airflow_resume.sinks import SqlSink
SqlSink("sqlite://")
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("airflow")))
"""


def test_a_dag_file_with_a_sink_imports_nothing_heavy() -> None:
    found = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert not {name.partition(".")[0] for name in found.stdout.split()} & {"sqlalchemy", "pandas", "duckdb"}
    assert len(found.stdout.split()) < 5, found.stdout


@pytest.mark.parametrize(
    "url", ["postgresql+psycopg_async://etl@warehouse/dwh", "postgresql+asyncpg://etl@warehouse/dwh"]
)
def test_a_driver_for_an_event_loop_is_refused_by_name(url: str) -> None:
    pytest.importorskip(url.partition("+")[2].partition(":")[0].removesuffix("_async"))
    with pytest.raises(SinkUnsafeError, match="for an event loop"):
        _ = SqlSink(url).engine


@pytest.mark.parametrize(
    ("statement", "goes_on"),
    [
        ("INSERT INTO flights VALUES (1)", True),
        ("\n  with found as (select 1) select * from found", True),
        ("REPLACE INTO flights VALUES (1)", True),
        ("UPDATE flights SET name = 'a;b'", False),
        ("select 1; commit", False),
        ("/*!50000 commit */", False),
        ("/* why */ INSERT INTO flights VALUES (1)", False),
        ("CALL hidden_commit()", False),
        ("EXECUTE hidden", False),
        ("DO $$ BEGIN COMMIT; END $$", False),
        ("SAVEPOINT mine", True),
        ("ROLLBACK TO SAVEPOINT mine", True),
        ("ROLLBACK", False),
        ("selected", False),
        ("", False),
    ],
)
def test_what_cannot_end_a_transaction(statement: str, *, goes_on: bool) -> None:
    assert all(database.goes_on_after(statement) == goes_on for database in DATABASES.values())
