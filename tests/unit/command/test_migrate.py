from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import create_engine, text

Command = Callable[..., Any]


def set_version(url: str, version: int) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE airflow_resume_meta SET version = :version"), {"version": version})
    engine.dispose()


def test_it_says_from_where_to_where_and_then_that_nothing_is_left(command: Command, url: str) -> None:
    assert command("migrate", url).out.endswith("state.db: from version 0 to 2\n")
    assert command("migrate", url).out.endswith("state.db: is at version 2 already\n")


def test_a_newer_schema_is_an_error_everywhere(command: Command, made: str) -> None:
    set_version(made, 7)
    for name in ("migrate", "cleanup"):
        code, out, err = command(name, made)
        assert (code, out) == (1, "")
        assert "has version 7 of the tables, and this airflow-resume knows 2. Upgrade" in err
    code, out, _ = command("doctor", made)
    assert (code, "error" in out, "version 7 of the tables" in out) == (1, True, True)


def test_a_folder_that_does_not_exist_is_one_line(command: Command, tmp_path: Path) -> None:
    code, _, err = command("migrate", f"sqlite:///{tmp_path}/none/state.db")
    assert (code, err.count("\n")) == (1, 1)
    assert "unable to open database file" in err


def test_the_statements_for_another_user_are_printed_and_make_the_same(
    command: Command, url: str, tmp_path: Path
) -> None:
    printed = command("migrate", "--sql", url).out
    assert not (tmp_path / "state.db").exists()
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        connection.executescript(printed)
    assert command("migrate", url).out.endswith("is at version 2 already\n")
    assert command("migrate", "--sql", url)[:2] == (0, "")
    assert command("migrate", "--sql", url).err.endswith("state.db: is at version 2 already\n")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
@pytest.mark.parametrize("name", ["migrate", "cleanup", "rotate", "new-id"])
def test_a_database_in_memory_is_refused_as_nothing_would_be_left_of_it(
    command: Command, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    code, out, err = command(name, url, *(["--codec", "fernet"] if name == "rotate" else []))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "is a database in memory" in err
    assert "Give the URL of a file" in err


def test_the_statements_for_a_new_sqlite_are_printed_without_a_file(command: Command) -> None:
    assert "CREATE TABLE airflow_resume_state" in command("migrate", "--sql", "sqlite://").out


# --- the table of positions of a sink ---------------------------------------------------------------------------


def test_the_table_of_a_sink_is_made_once(command: Command, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'warehouse.db'}"
    assert command("migrate", url, "--sink").out.endswith("the table airflow_resume_positions was made\n")
    assert command("migrate", url, "--sink").out.endswith("the table airflow_resume_positions is there already\n")
    with closing(sqlite3.connect(tmp_path / "warehouse.db")) as raw:
        assert raw.execute("SELECT count(*) FROM airflow_resume_positions").fetchone() == (0,)


def test_or_its_statement_is_printed_and_nothing_is_made(command: Command, tmp_path: Path) -> None:
    found = command("migrate", f"sqlite:///{tmp_path / 'warehouse.db'}", "--sink", "--sql")
    assert found.out.startswith("CREATE TABLE IF NOT EXISTS airflow_resume_positions (")
    assert found.out.endswith(";\n")
    assert not (tmp_path / "warehouse.db").exists()


def test_a_sink_that_cannot_be_used_is_one_line(command: Command, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/none/warehouse.db", "oracle://me:secret@host/db"):
        code, _, err = command("migrate", url, "--sink")
        assert (code, err.count("\n")) == (1, 1)
        assert "secret" not in err
    code, _, err = command("migrate", "--sink")
    assert (code, "needs the URL" in err) == (1, True)
