"""A new database is one module and one entry in the registry, and what is forgotten of it is an error."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from airflow_resume.backends.dialects.base import Dialect
from airflow_resume.backends.dialects.registry import DIALECTS, dialect_of
from airflow_resume.backends.dialects.server import ServerDialect
from airflow_resume.backends.dialects.sqlite import Sqlite
from airflow_resume.backends.rows.statements import _CHANGED, _IDENTITY
from airflow_resume.backends.schema.tables import HISTORY, META, STATE
from airflow_resume.backends.urls.driver_errors import reason
from airflow_resume.backends.urls.read import read_url

ROOT = Path(__file__).parents[3]
TOOLKIT = ROOT / "toolkit" / "airflow_resume"
EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.kind)
MANDATORY = [name for name in Dialect.__annotations__ if not hasattr(Dialect, name)]
NAMES = re.compile(r"sqlite|postgres|mysql|mariadb|psycopg")


@pytest.mark.parametrize("name", MANDATORY)
def test_an_attribute_that_is_forgotten_is_an_error(name: str) -> None:
    class Forgetful(Sqlite):
        def __getattribute__(self, asked: str) -> Any:
            if asked == name:
                raise AttributeError(asked)
            return super().__getattribute__(asked)

    with pytest.raises(TypeError, match=f"Forgetful does not say its {name}"):
        Forgetful()


@pytest.mark.parametrize("base", [Dialect, ServerDialect])
def test_a_method_that_is_forgotten_is_an_error(base: type[Dialect]) -> None:
    class Forgetful(base):  # type: ignore[misc, valid-type]
        pass

    with pytest.raises(TypeError, match="abstract"):
        Forgetful()


def test_a_server_must_answer_what_a_file_need_not() -> None:
    more = ServerDialect.__abstractmethods__ - Dialect.__abstractmethods__
    assert more == {"connect_args", "end_session", "may_create", "schema_lock", "session", "socket_number"}
    assert "encoding" in ServerDialect.__annotations__
    assert all(hasattr(dialect, "encoding") for dialect in DIALECTS if dialect.is_server)


def test_no_two_dialects_have_a_name_in_common() -> None:
    for names in ("names", "sqlalchemy_names"):
        all_names = [name for dialect in DIALECTS for name in getattr(dialect, names)]
        assert len(all_names) == len(set(all_names))
    assert all(dialect_of(name) is dialect for dialect in DIALECTS for name in dialect.names)
    assert dialect_of("oracle") is None


@EACH
def test_what_is_said_of_options_is_said_of_known_ones(dialect: Dialect) -> None:
    for options in (dialect.number_options, dialect.option_choices, dialect.repeatable_options):
        assert set(options) <= dialect.options


@EACH
def test_its_own_form_of_a_url_is_read(dialect: Dialect) -> None:
    assert read_url(dialect.url_form.split()[0])[1] is dialect
    for driver in dialect.drivers:
        url, found = read_url(dialect.url_form.split()[0].replace("://", f"+{driver}://"))
        assert (found, url.drivername) == (dialect, f"{dialect.kind}+{driver}")
        assert dialect.engine_options(url)


@EACH
def test_its_tables_and_statements_can_be_made(dialect: Dialect) -> None:
    for name in dialect.sqlalchemy_names:
        sql = make_url(f"{name}://").get_dialect()()
        for table in (STATE, HISTORY, META):
            assert "NULL" in str(CreateTable(table).compile(dialect=sql))
            for index in table.indexes:
                assert "INDEX" in str(CreateIndex(index).compile(dialect=sql))
        upsert: Any = dialect.upsert(STATE, _IDENTITY, _CHANGED)
        assert "INSERT" in str(upsert.compile(dialect=sql))


@EACH
def test_the_same_index_is_for_databases_with_partial_indexes_or_for_the_others(dialect: Dialect) -> None:
    only = {str(index.name): index.info["only"] for index in STATE.indexes if index.info}
    made = {name for name, names in only.items() if set(dialect.sqlalchemy_names) <= set(names)}
    assert made == {"airflow_resume_state_mapped" if dialect.has_partial_indexes else "airflow_resume_state_family"}


@EACH
def test_what_its_driver_says_is_without_the_password(dialect: Dialect) -> None:
    if not dialect.is_server:
        return
    url, _ = read_url(f"{dialect.kind}://me:hunter2secret@host/db")
    error = DBAPIError("SELECT 1", {}, Exception("no entry for hunter2secret"), hide_parameters=True)
    assert reason(error, url) == "no entry for ***"


@EACH
def test_it_has_an_extra_and_a_place_in_the_documentation_and_in_the_contract(dialect: Dialect) -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert re.search(rf"^{dialect.extra} = \[", project, re.MULTILINE)
    assert dialect.product in (ROOT / "docs" / "backends.md").read_text()
    assert f'"{dialect.kind}"' in (ROOT / "tests" / "contract" / "conftest.py").read_text()


def constants(source: str) -> list[str]:
    """The texts of a module, without its docstrings."""
    tree = ast.parse(source)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]


EXAMPLES = {
    "Write sqlite:///",
    "Give the URL of a file, such as sqlite:////srv/airflow/state.db (four slashes).",
    (
        "as SQLAlchemy writes it, such as sqlite:////srv/state.db;"
        " left out, [airflow_resume] backend_url or backend_conn_id of Airflow's configuration"
    ),
}
"""What people are told to write."""


def test_nothing_but_the_dialects_knows_a_database_by_name() -> None:
    files = [*(TOOLKIT / "backends").rglob("*.py"), *(TOOLKIT / "command").rglob("*.py")]
    found = {
        text
        for file in files
        if file.parent.name != "dialects"
        for text in constants(file.read_text())
        if NAMES.search(text)
    }
    imported = {
        file.name
        for file in files
        if file.parent.name != "dialects"
        and re.search(r"dialects\.(sqlite|postgresql|mysql) import|sqlalchemy\.dialects import", file.read_text())
    }
    assert (found, imported) == (EXAMPLES, set())
