"""What all subcommands have in common."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.command import main
from airflow_resume.command.console import MEASURED, lines

Command = Callable[..., Any]


@pytest.mark.parametrize(
    "arguments", [[], ["unknown"], ["cleanup", "a", "b"], ["doctor", "-o", "xml"], ["conformance"], ["migrate", "-x"]]
)
def test_a_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: airflow-resume")


@pytest.mark.parametrize("subcommand", ["migrate", "cleanup", "doctor"])
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oracle://scott:tiger@host/db", "does not work on 'oracle'"),
        ("tiger", "cannot be read"),
        ("mysql+nodriver://scott:tiger@host/db", "names nodriver, with which the backend was not tried"),
    ],
)
def test_a_wrong_url_is_one_line_without_its_password(
    command: Command, subcommand: str, url: str, message: str
) -> None:
    code, out, err = command(subcommand, url)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err
    assert "tiger" not in err


def test_without_a_url_it_is_that_of_the_configuration(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "has no URL. Set [airflow_resume] backend_url" in command("migrate").err
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_URL", made)
    assert [command(name).code for name in ("migrate", "cleanup", "doctor")] == [0, 0, 0]


def test_a_missing_driver_names_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    assert "pip install 'airflow-resume[mysql]'" in command("migrate", "mysql://host/db").err


def test_a_file_that_is_no_database_is_refused_in_one_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 100)
    for name in ("migrate", "cleanup"):
        code, out, err = command(name, f"sqlite:///{tmp_path / 'text'}")
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "not a database" in err


QUICK = """
import sys
from airflow_resume.command import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"airflow", "sqlalchemy", "pytest", "rich", "httpx", "pydantic"}
    print("loaded", len(sys.modules), *(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--version"], "airflow-resume 0."), (["--help"], "migrate"), (["cleanup", "-h"], "URL")]
)
def test_help_and_version_load_neither_airflow_nor_sqlalchemy(arguments: list[str], says: str) -> None:
    done = subprocess.run([sys.executable, "-c", QUICK, *arguments], capture_output=True, text=True, check=True)
    assert says in done.stdout
    _, count, *heavy = done.stdout.splitlines()[-1].split()
    assert heavy == []
    assert int(count) < 200


def test_a_reader_that_stops_early_is_no_error(made: str) -> None:
    code = f"import sys; from airflow_resume.command import main; sys.exit(main(['doctor', {made!r}]))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_table_is_not_held_in_memory_and_escapes_what_a_terminal_would_obey() -> None:
    taken: list[int] = []

    def rows() -> Any:
        for number in range(MEASURED * 3):
            taken.append(number)
            yield (number, "\x1b[2J\n")

    table = lines(("A", "B"), rows())
    assert [next(table), next(table)] == ["A    B", '0    "\\u001b[2J\\n"']
    assert len(taken) == MEASURED


@pytest.mark.parametrize(
    "arguments",
    [
        ["postgresql://me:hunter2secret@host/db"],
        ["migrate", "postgresql://me@host/db", "postgresql://me:hunter2secret@host/db?x=y"],
        ["migrate", "--url=postgresql://me:hunter2secret@host/db"],
        ["cleanup", "sqlite://", "-o", "host=h password=hunter2secret user=me@h"],
        ["conformance", "postgresql://me:hunter2secret@host/db"],
    ],
)
def test_a_url_in_a_wrong_place_is_not_quoted(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(arguments)
    out, err = capsys.readouterr()
    assert err
    assert "hunter2secret" not in out + err
