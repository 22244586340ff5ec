from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

Command = Callable[..., Any]


def set_version(url: str, version: int) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE airflow_resume_meta SET version = :version"), {"version": version})
    engine.dispose()


def test_it_says_from_where_to_where_and_then_that_nothing_is_left(command: Command, url: str) -> None:
    assert command("migrate", url).out.endswith("state.db: from version 0 to 1\n")
    assert command("migrate", url).out.endswith("state.db: is at version 1 already\n")


def test_a_newer_schema_is_an_error_everywhere(command: Command, made: str) -> None:
    set_version(made, 7)
    for name in ("migrate", "cleanup"):
        code, out, err = command(name, made)
        assert (code, out) == (1, "")
        assert "has version 7 of the tables, and this airflow-resume knows 1. Upgrade" in err
    code, out, _ = command("doctor", made)
    assert (code, "error" in out, "version 7 of the tables" in out) == (1, True, True)


def test_a_folder_that_does_not_exist_is_one_line(command: Command, tmp_path: Path) -> None:
    code, _, err = command("migrate", f"sqlite:///{tmp_path}/none/state.db")
    assert (code, err.count("\n")) == (1, 1)
    assert "unable to open database file" in err
