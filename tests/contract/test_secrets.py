"""Nothing secret of a URL is shown, in any of the places where it could be, whatever the database does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.backends.databases import MYSQL, POSTGRESQL, Server, database_on_mysql, database_on_postgresql
from tests.support.backends.shown_urls import listening, of_backend, of_commands
from tests.support.backends.stalling_proxy import StallingProxy, stalling_proxy

HEAD, TAIL = "hunter2secret", "s3cretTail"

POSTGRESQL_FORMS = {
    "plain": "//app:{0}@{host}/{db}",
    "percent-encoded": "//app:%68unter2%73ecret%40{1}@{host}/{db}",
    "with @, : and /": "//app:{0}%40%3A%2F{1}@{host}/{db}",
    "unescaped @": "//app:{0}@{1}@{host}/{db}",
    "unescaped : and /": "//app:{0}:/{1}@{host}/{db}",
    "of the user": "//app%3A{0}@{host}/{db}",
    "no user": "//:{0}@{host}/{db}",
    "password": "//{host}/{db}?user=app&password={0}",
    "sslpassword": "//app@{host}/{db}?sslpassword={0}",
    "sslkey": "//app@{host}/{db}?sslmode=prefer&sslcert=/srv/{1}&sslkey=/srv/{0}.pem",
    "options": "//postgres@{host}/{db}?options=-c%20app.token%3D{0}%20-cdatestyle%3D{1}",
    "passfile": "//app@{host}/{db}?passfile=/srv/{0}",
    "host of the query": "//app@/{db}?host=app:{0}@{1}",
    "with & for ?": "//app@{host}/{db}&password={0}",
    "with ; for ?": "//app@{host}/{db};password={0}",
    "with # for ?": "//app@{host}/{db}#{0}",
    "as an option that does not exist": "//app@{host}/{db}?{0}={1}",
    "in a number": "//app@{host}/{db}?connect_timeout={0}&port={1}",
    "in a mode": "//app@{host}/{db}?sslmode=prefer&target_session_attrs={0}&channel_binding={1}",
    "that works": "//postgres:{0}@{host}/{db}?application_name={1}",
}
MYSQL_FORMS = {
    "plain": "//app:{0}@{host}/{db}",
    "percent-encoded": "//app:%68unter2%73ecret%40{1}@{host}/{db}",
    "with @, : and /": "//app:{0}%40%3A%2F{1}@{host}/{db}",
    "unescaped @": "//app:{0}@{1}@{host}/{db}",
    "of the user": "//app%3A{0}@{host}/{db}",
    "no user": "//:{0}@{host}/{db}",
    "password": "//{host}/{db}?user=app&password={0}",
    "passwd": "//{host}/{db}?user=app&passwd={0}",
    "ssl_key": "//root@{host}/{db}?ssl_ca=/srv/{1}&ssl_key=/srv/{0}",
    "init_command": "//root@{host}/{db}?init_command=SET%20@token%3D'{0}',%20{1}%3D1",
    "default file": "//root@{host}/{db}?read_default_file=/srv/{0}&read_default_group={1}",
    "socket": "//app@/{db}?unix_socket=app:{0}@{1}",
    "in a truth": "//root@{host}/{db}?local_infile={0}",
    "with ; for ?": "//app@{host}/{db};password={0}",
    "not of latin1": "//app:{0}%E2%82%AC@{host}/{db}",
}
SQLITE_FORMS = {
    "key of a cipher": "///{file}?key={0}",
    "key of a cipher in a URI": "///file:{file}?key={0}&hexkey={1}&uri=true",
    "no user": "//:{0}@/{file}",
    "user": "//{0}:{1}@/{file}",
    "with & for ?": "///{file}&key={0}",
    "with ; for ?": "///file:{file};key={0}?uri=true",
    "another driver": "+pysqlcipher://:{0}@/{file}?cipher={1}",
}
DRIVERS = {
    "postgresql": (POSTGRESQL, POSTGRESQL_FORMS),
    "postgresql+psycopg2": (POSTGRESQL, POSTGRESQL_FORMS),
    "mysql": (MYSQL, MYSQL_FORMS),
}
SERVERS = [(driver, form) for driver, (_, forms) in DRIVERS.items() for form in forms]


def said_of(url: str) -> str:
    with listening() as logs:
        said = [*of_backend(url), *of_commands(url)]
    return "\n".join([*said, logs.getvalue()])


def assert_silent(said: str) -> None:
    shown = [line for line in said.splitlines() if HEAD in line or TAIL in line or "unter2%73" in line]
    assert shown == []


def place(server: Server) -> tuple[str, int]:
    url = server.found()
    return str(url.host), url.port or 0


@pytest.fixture(scope="module")
def databases() -> Iterator[dict[str, str | None]]:
    """Their names."""
    with database_on_postgresql() as postgresql, database_on_mysql() as mysql:
        name = make_url(postgresql).database
        yield {"postgresql": name, "postgresql+psycopg2": name, "mysql": make_url(mysql).database}


@pytest.fixture(scope="module")
def stalled() -> Iterator[dict[str, StallingProxy]]:
    with stalling_proxy(*place(POSTGRESQL)) as postgresql, stalling_proxy(*place(MYSQL)) as mysql:
        postgresql.stall()
        mysql.stall()
        yield {"postgresql": postgresql, "postgresql+psycopg2": postgresql, "mysql": mysql}


@pytest.mark.parametrize(("driver", "form"), SERVERS)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_server_that_answers(
    driver: str, form: str, databases: dict[str, str | None], capfd: pytest.CaptureFixture[str], *, is_there: bool
) -> None:
    server, forms = DRIVERS[driver]
    host, port = place(server)
    where = {"host": f"{host}:{port}", "db": databases[driver] if is_there else "none_of_that_name"}
    url = f"{driver}:{forms[form]}".format(HEAD, TAIL, **where)
    assert_silent(said_of(url) if is_there else "\n".join(of_backend(url)))
    assert_silent("".join(capfd.readouterr()))


@pytest.mark.parametrize(("driver", "form"), SERVERS)
def test_a_server_that_is_away(driver: str, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    where = {"host": "no-such-host.invalid" if form == "plain" else "127.0.0.1:1", "db": "d"}
    with listening() as logs:
        said = [*of_backend(f"{driver}:{DRIVERS[driver][1][form]}".format(HEAD, TAIL, **where))]
    assert_silent("\n".join([*said, logs.getvalue()]))
    assert_silent("".join(capfd.readouterr()))


@pytest.mark.parametrize(("driver", "form"), SERVERS)
def test_a_server_that_stalls(
    driver: str, form: str, stalled: dict[str, StallingProxy], capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"{driver}:{DRIVERS[driver][1][form]}".format(HEAD, TAIL, host=f"127.0.0.1:{stalled[driver].port}", db="d")
    with listening() as logs:
        said = list(islice(of_backend(url), 2))
    assert_silent("\n".join([*said, logs.getvalue()]))
    assert_silent("".join(capfd.readouterr()))


@pytest.mark.parametrize("form", SQLITE_FORMS)
@pytest.mark.parametrize("state", ["new", "no database", "no folder"])
def test_a_file(form: str, state: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ("none/state.db" if state == "no folder" else "state.db")
    if state == "no database":
        file.write_text("no database " * 100)
    assert_silent(said_of(f"sqlite:{SQLITE_FORMS[form]}".format(HEAD, TAIL, file=file).replace("sqlite:+", "sqlite+")))
    assert_silent("".join(capfd.readouterr()))
