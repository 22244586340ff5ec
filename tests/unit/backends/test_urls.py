"""A URL is right, or refused when the backend is made, with the form to write; and nothing secret of it is shown."""

from __future__ import annotations

import traceback
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.dialects.registry import DIALECTS
from airflow_resume.backends.urls.driver_errors import reason
from airflow_resume.backends.urls.read import read_url
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.errors import BackendSettingError, ResumeError

HEAD, TAIL = "hunter2secret", "s3cretTail"

RIGHT = {
    "postgresql://me@host/db": "postgresql+psycopg://me@host/db",
    "postgres://me@host/db": "postgresql+psycopg://me@host/db",
    "postgres+psycopg2://me@host/db": "postgresql+psycopg2://me@host/db",
    f"postgresql://me:{HEAD}@[::1]:5432/db": "postgresql+psycopg://me:***@[::1]:5432/db",
    f"postgresql://me:{HEAD}/{TAIL}@host/db": "postgresql+psycopg://me:***@host/db",
    "postgresql://me:p%40ss%3Aw%2Frd@host/db": "postgresql+psycopg://me:***@host/db",
    f"postgresql://host/db?user=me&password={HEAD}": "postgresql+psycopg://me:***@host/db",
    f"postgresql://me@host/db?sslpassword={HEAD}&sslkey={TAIL}": "postgresql+psycopg://me@host/db",
    "postgresql://me@/db?host=/run/pg&port=5432": "postgresql+psycopg://me@/db?host=%2Frun%2Fpg&port=5432",
    "postgresql://me@/db?host=a:1&host=b:2": "postgresql+psycopg://me@/db?host=a%3A1&host=b%3A2",
    "postgresql://me@host/db?sslmode=require&connect_timeout=3": "postgresql+psycopg://me@host/db",
    "mariadb://me@host/db": "mysql+pymysql://me@host/db",
    "mariadb+pymysql://me@host/db": "mysql+pymysql://me@host/db",
    f"mysql://host/db?user=me&passwd={HEAD}": "mysql+pymysql://me:***@host/db",
    "mysql+mysqldb://me@host/db?charset=utf8mb4": "mysql+mysqldb://me@host/db",
    "sqlite://": "sqlite+pysqlite://",
    "sqlite:///state.db": "sqlite+pysqlite:///state.db",
    "sqlite:////srv/a@b@c.db": "sqlite+pysqlite:////srv/a%40b%40c.db",
    "sqlite:///file:/srv/state.db?mode=ro&uri=true": "sqlite+pysqlite:///file%3A/srv/state.db",
}

WRONG = {
    "": "is empty",
    " postgresql://me@host/db ": "blanks around",
    "postgresql://me@host/db\n": "blanks around",
    "POSTGRESQL://me@host/db": "capitals",
    "jdbc:postgresql://host/db": "JDBC",
    f"host=h dbname=d password={HEAD}": "connection string",
    f"postgresql://u:{HEAD}@$HOST:$PORT/db": "variable",
    "$STATE_URL": "variable",
    f"postgresql+asyncpg://u:{HEAD}@h/db": "asyncpg, a driver for asyncio",
    "sqlite+aiosqlite:///x.db": "aiosqlite, a driver for asyncio",
    "mysql+aiomysql://u@h/db": "aiomysql, a driver for asyncio",
    "postgresql+pg8000://u@h/db": "names pg8000, with which the backend was not tried",
    "mysql+mysqlconnector://u@h/db": "names mysqlconnector",
    "mariadb+mariadbconnector://u@h/db": "names mariadbconnector",
    f"postgresql://u:{HEAD}@{TAIL}@h/db": "characters that no host has",
    f"postgresql://u:{HEAD}@{TAIL}/x@h/db": "database with an @",
    f"postgresql://u:a@{TAIL}?{HEAD}@h/db": "names no database",
    f"postgresql://u:{HEAD}": "cannot be read",
    f"postgres//u:{HEAD}@h/db": "cannot be read",
    f"postgresql://u:{HEAD}@h1:1,h2:2/db": "several hosts",
    f"postgresql://u:{HEAD}@h/db?ssl_mode=require": r"is it sslmode\?",
    f"postgresql://u:{HEAD}@h/db?sslmode=bad": "sslmode with an unknown value",
    f"postgresql://u:{HEAD}@h/db?connect_timeout={TAIL}": "connect_timeout that is no number",
    f"postgresql://u:{HEAD}@h/db?client_encoding=latin1": "loses text",
    f"mysql://u:{HEAD}@h": "names no database",
    "mysql://root@h/db?charset=latin1": "loses text",
    "sqlite://path": "host where the path should be",
    "sqlite:/x.db": "cannot be read",
    f"sqlite://user:{HEAD}@/x.db": "has a user",
    "sqlite:///~/x.db": "~, which is not replaced",
    "sqlite:///file:/x.db": "not uri=true",
    "sqlite:///x.db?mode=ro&uri=true": "does not begin with file:",
    "sqlite:///x.db?mode=ro": "option mode",
}


@pytest.mark.parametrize(("url", "for_people"), RIGHT.items())
def test_a_right_url_is_read_and_shown_without_its_secrets(url: str, for_people: str) -> None:
    assert shown_url(read_url(url)[0]) == for_people
    assert repr(SqlStoreBackend(url)) == f"<SqlStoreBackend {for_people}>"


@pytest.mark.parametrize(("url", "message"), WRONG.items())
def test_a_wrong_url_is_refused_with_the_form_to_write_and_nothing_of_it_is_printed(url: str, message: str) -> None:
    with pytest.raises(BackendSettingError, match=message) as caught:
        SqlStoreBackend(url)
    printed = "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    assert "Write it as" in printed
    assert HEAD not in printed
    assert TAIL not in printed


@pytest.mark.parametrize(
    ("url", "message"), [(Path("/srv/x.db"), "sqlite:////srv/x.db"), (b"sqlite://", "is a bytes"), (7, "is a int")]
)
def test_what_is_no_text_is_refused(url: Any, message: str) -> None:
    with pytest.raises(BackendSettingError, match=message):
        SqlStoreBackend(url)


@pytest.mark.parametrize(
    "words",
    [(1062, f"Duplicate entry '{HEAD}' for key 'k'"), (1064, f"near '{HEAD}' at line 1"), (1366, f"value: '{HEAD}'")],
)
def test_a_value_that_mysql_quotes_is_shown_neither_in_the_reason_nor_in_the_causes(words: tuple[int, str]) -> None:
    url, _ = read_url("mysql://me@host/db")
    error = DBAPIError("INSERT", {}, Exception(*words), hide_parameters=True)
    assert HEAD not in reason(error, url)
    assert HEAD not in "".join(traceback.format_exception(error))
    assert error.orig is not None
    assert error.orig.args[0] == words[0]


@pytest.mark.parametrize("quoted", ["p@ss/word", "p%40ss%2Fword"])
def test_a_password_in_a_drivers_words_is_replaced(quoted: str) -> None:
    url, _ = read_url("postgresql://me:p%40ss%2Fword@host/db")
    error = DBAPIError("SELECT 1", {}, Exception(f"cannot use {quoted}"), hide_parameters=True)
    assert reason(error, url) == "cannot use ***"


LABEL = "h" * 70
BAD_PARTS = {
    "postgresql://me@a..b/db": "characters that no host has",
    f"postgresql://me@{LABEL}/db": "characters that no host has",
    f"postgresql://me@{'h' * 60}.{'h.' * 120}/db": "characters that no host has",
    "mysql://me@-h/db": "characters that no host has",
    "postgresql://me@/db?host=a..b": "option host",
    "postgresql://me@h:99999/db": "port",
    "postgresql://me@h/db?port=0": "option port",
    "postgresql://me@h/db?connect_timeout=-1": "connect_timeout that is no number",
    "postgresql://me@h/db?connect_timeout=1.5": "connect_timeout that is no number",
    "postgresql://me@h/db?prepare_threshold=many": "prepare_threshold that is no number",
    "mysql://me@h/db?connect_timeout=0": "connect_timeout that is no number",
    "mysql://me@h/db?read_timeout=-5": "read_timeout that is no number",
    "mysql://me@h/db?local_infile=perhaps": "local_infile with an unknown value",
    "mysql://me@/db?unix_socket=socket": "unix_socket that is no path",
    f"sqlite:////srv/{'x' * 300}.db": "of more than 255 bytes",
    "sqlite:///x.db?timeout=-1": "timeout that is no number",
    f"mysql://me@h/db;password={HEAD}": "one of",
    f"sqlite:///x.db&key={HEAD}": "options begin with",
}


@pytest.mark.parametrize(("url", "message"), BAD_PARTS.items())
def test_a_part_that_a_driver_would_stumble_over_is_refused(url: str, message: str) -> None:
    with pytest.raises(BackendSettingError, match=message) as caught:
        SqlStoreBackend(url)
    assert HEAD not in "".join(traceback.format_exception(caught.value))


ODD = ("", "x", "-1", "1.5", "99999999999", "\N{SNOWMAN}", "['")
OPTIONS_OF = [(dialect.kind, name) for dialect in DIALECTS for name in sorted(dialect.options)]


@pytest.mark.parametrize(("kind", "name"), OPTIONS_OF)
def test_whatever_an_option_has_for_a_value_the_error_has_a_name(kind: str, name: str, tmp_path: Path) -> None:
    """It is refused at once, or what the driver says of it gets one."""
    place = f"/{tmp_path}/x.db" if kind == "sqlite" else "me@127.0.0.1:1/db"
    for odd in ODD:
        try:
            with closing(SqlStoreBackend(f"{kind}://{place}?{name}={quote(odd)}", patience=0)) as backend:
                SqlStateStore(backend, "scope").set("key", 1)
        except ResumeError:
            pass


def test_a_url_shows_no_option_whoever_prints_it() -> None:
    url, _ = read_url(f"postgresql://me:{HEAD}@host/db?sslpassword={TAIL}&options=-cx.y%3D{TAIL}")
    engine = create_engine(url)
    assert {str(url), repr(url), f"{url}", str(engine.url)} == {"postgresql+psycopg://me:***@host/db"}
    assert repr(engine) == "Engine(postgresql+psycopg://me:***@host/db)"


@pytest.mark.parametrize("user", [f"me%3A{HEAD}", f"{HEAD}%2F{HEAD}"])
def test_a_user_with_a_password_in_it_is_not_shown(user: str) -> None:
    url, _ = read_url(f"postgresql://{user}@host/db")
    assert shown_url(url) == "postgresql+psycopg://***@host/db"
    said = f'role "{url.username}" does not exist'
    assert HEAD not in reason(DBAPIError("SELECT 1", {}, Exception(said), hide_parameters=True), url)
    assert (
        shown_url(read_url("postgresql://me%40server:x@host/db")[0]) == "postgresql+psycopg://me%40server:***@host/db"
    )


def test_what_an_error_comes_from_says_no_more_than_the_error() -> None:
    url, _ = read_url(f"postgresql://me:{HEAD}@host/db?sslkey=/srv/{TAIL}")
    error = DBAPIError("SELECT 1", {}, Exception(f"no {HEAD}"), hide_parameters=True)
    error.__cause__ = UnicodeEncodeError("latin-1", f"{HEAD}€", 0, 1, "no such")
    error.__cause__.__context__ = FileNotFoundError(2, "No such file", f"/srv/{TAIL}")
    assert error.orig is not None
    error.orig.__cause__ = ValueError(f"bad {HEAD}", 3)
    reason(error, url)
    printed = "".join([*traceback.format_exception(error), *traceback.format_exception(error.orig)])
    assert HEAD not in printed
    assert TAIL not in printed
