"""A database in a bad way, really: each has its name and its remedy, nothing is lost, and afterwards all goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import make_url

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.command import main
from airflow_resume.errors import StoreRefusedError, UnwritableStoreError, ValueTooLargeError
from airflow_resume.errors import StoreUnavailableError as Unavailable
from airflow_resume.testing.contract.children import Child
from tests.support.backends.databases import MYSQL, POSTGRESQL, ask, schema_on_postgresql, text_of
from tests.support.backends.refusing_servers import mariadb_of_our_own, mounted, remount, user_of_postgresql
from tests.support.kit.raised import having

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
LARGE = "x" * 50_000
NOBODY = 65_534


def impatient(url: str) -> SqlStoreBackend:
    backend = SqlStoreBackend(url, patience=1)
    backend._database._sleep = lambda _: None
    return backend


def on(disk: Path) -> SqlStoreBackend:
    return SqlStoreBackend(f"sqlite:///{disk / 'state.db'}")


# --- files ----------------------------------------------------------------------------------------------------


def test_on_a_full_disk_what_was_acknowledged_is_there_and_with_room_it_goes_on(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "disk", "size=1m") as disk,
        closing(SqlStoreBackend(f"sqlite:///{disk}/state.db")) as backend,
    ):
        acknowledged: list[str] = []
        with pytest.raises(UnwritableStoreError, match=r"has no space left.*\nMake room", check=having(problem="full")):
            for number in range(100):
                backend.set(SCOPE, f"key.{number}", LARGE)
                acknowledged.append(f"key.{number}")
        assert acknowledged
        assert sorted(backend.scan(SCOPE, "")) == sorted(acknowledged)
        assert all(backend.get(SCOPE, key) == LARGE for key in acknowledged)
        remount(disk, "size=16m")
        backend.set(SCOPE, "more", LARGE)
        assert len(backend.scan(SCOPE, "")) == len(acknowledged) + 1


def test_on_a_file_system_that_became_read_only_nothing_is_written_until_it_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        mounted(tmp_path / "disk", "size=4m") as disk,
        closing(SqlStoreBackend(f"sqlite:///{disk}/state.db")) as backend,
    ):
        backend.set(SCOPE, "key", "1")
        backend.close()
        remount(disk, "ro")
        with pytest.raises(StoreRefusedError, match=r"refused the call.*\nSee whether .* this user may write in it"):
            backend.set(SCOPE, "key", "2")
        assert main(["doctor", f"sqlite:///{disk}/state.db"]) == 1
        assert "cannot be written" in capsys.readouterr().out
        remount(disk, "rw")
        assert backend.get(SCOPE, "key") == "1"
        backend.set(SCOPE, "key", "2")


@contextmanager
def immutable(file: Path) -> Iterator[None]:
    """Not to be changed by root either."""
    chattr = shutil.which("chattr")
    if chattr is None or subprocess.run([chattr, "+i", str(file)], check=False, capture_output=True).returncode != 0:
        pytest.skip("this file system or this user cannot make a file immutable: run this as root on ext4 or the like")
    try:
        yield
    finally:
        subprocess.run([chattr, "-i", str(file)], check=True)


def test_a_file_that_cannot_be_written_is_read_and_once_it_can_be_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "state.db"
    with closing(SqlStoreBackend(f"sqlite:///{file}")) as backend:
        backend.set(SCOPE, "key", "1")
        backend.close()
        with immutable(file):
            with pytest.raises(
                UnwritableStoreError, match="can be read and not written", check=having(problem="read-only")
            ):
                backend.set(SCOPE, "key", "2")
            assert backend.get(SCOPE, "key") == "1"
            assert main(["doctor", f"sqlite:///{file}"]) == 1
            assert "cannot be written" in capsys.readouterr().out
        backend.set(SCOPE, "key", "2")
        assert backend.get(SCOPE, "key") == "2"


def test_a_user_without_the_right_to_a_folder_is_told_so(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else: run this as root")

    def write(sender: Connection) -> None:
        os.chdir(tmp_path)  # those above may be closed to it
        os.setuid(NOBODY)
        try:
            SqlStoreBackend("sqlite:///state.db").set(SCOPE, "key", "1")
        except StoreRefusedError as error:
            sender.send((None, str(error)))

    with Child(write) as child:
        assert "\nSee whether its folder is there, and this user may write in it" in child.receive()
    assert list(tmp_path.iterdir()) == []


# --- servers --------------------------------------------------------------------------------------------------


def elsewhere(server: Callable[[], Any], **parts: Any) -> Callable[[], str]:
    return lambda: text_of(server().set(**parts))


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        (elsewhere(POSTGRESQL.found, database="no_such"), StoreRefusedError, "does not exist"),
        (elsewhere(POSTGRESQL.found, username="no_such"), StoreRefusedError, "does not exist|authentication failed"),
        (elsewhere(POSTGRESQL.found, port=1), Unavailable, "could not be used for 1 s.*port 1"),
        (elsewhere(POSTGRESQL.found, host="no-such.invalid"), Unavailable, "no-such.invalid"),
        (elsewhere(MYSQL.found, database="no_such"), StoreRefusedError, "Unknown database"),
        (elsewhere(MYSQL.found, username="no_such", password="secret"), StoreRefusedError, "Access denied"),  # noqa: S106
        (elsewhere(MYSQL.found, port=1), Unavailable, "could not be used for 1 s.*Can't connect"),
        (elsewhere(MYSQL.found, host="no-such.invalid"), Unavailable, "no-such.invalid"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(
    url: Callable[[], str], error: type[Exception], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error, match=message) as caught:
        impatient(url()).get(SCOPE, "key")
    assert "secret" not in str(caught.value)


def test_a_postgresql_that_is_out_of_connections_or_read_only_or_refuses_is_named_and_then_goes_on() -> None:
    with schema_on_postgresql() as url, closing(SqlStoreBackend(url)) as owner:
        owner.set(SCOPE, "key", "1")
        with user_of_postgresql(url) as (name, theirs), closing(impatient(theirs)) as backend:
            server = POSTGRESQL.found()
            for make, error, message, end in [
                (f"ALTER ROLE {name} CONNECTION LIMIT 0", Unavailable, "too many connections", "CONNECTION LIMIT -1"),
                (
                    f"ALTER ROLE {name} SET default_transaction_read_only = on",
                    UnwritableStoreError,
                    "read-only transaction",
                    "RESET default_transaction_read_only",
                ),
            ]:
                backend.close()
                ask(server, make)
                with pytest.raises(error, match=message):
                    backend.set(SCOPE, "key", "lost")
                assert owner.get(SCOPE, "key") == "1"
                ask(server, f"ALTER ROLE {name} {end}")
                backend.set(SCOPE, "key", "1")
            schema = make_url(url).query["application_name"]
            ask(server, f"REVOKE INSERT ON ALL TABLES IN SCHEMA {schema} FROM {name}")
            with pytest.raises(StoreRefusedError, match="permission denied"):
                backend.set(SCOPE, "key", "lost")
            assert backend.get(SCOPE, "key") == "1"


def test_a_mariadb_with_small_packets_read_only_or_without_a_connection_left_is_named_and_then_goes_on(
    tmp_path: Path,
) -> None:
    with mariadb_of_our_own(tmp_path, "--max-allowed-packet=1M") as root:
        ask(root, "CREATE USER writer IDENTIFIED BY 'secret'")
        ask(root, "GRANT ALL ON state.* TO writer")
        theirs = make_url(root).set(username="writer", password="secret")  # noqa: S106  of a server that goes again
        with pytest.raises(StoreRefusedError, match="Access denied"):
            impatient(text_of(theirs.set(password="wrong"))).get(SCOPE, "key")  # noqa: S106
        with closing(impatient(text_of(theirs))) as backend:
            backend.set(SCOPE, "key", "1")
            fits, too_large = "x" * 980_000, "x" * 2_000_000
            backend.set(SCOPE, "large", fits)
            with pytest.raises(ValueTooLargeError, match=r"may have 983,040 \(the server's max_allowed_packet\)"):
                backend.set(SCOPE, "large", too_large)
            assert backend.get(SCOPE, "large") == fits
            ask(root, "SET GLOBAL max_allowed_packet = 8388608")
            backend.set(SCOPE, "large", too_large)

            ask(root, "SET GLOBAL read_only = 1")
            with pytest.raises(UnwritableStoreError, match="read-only", check=having(problem="read-only")):
                backend.set(SCOPE, "key", "2")
            assert backend.get(SCOPE, "key") == "1"
            ask(root, "SET GLOBAL read_only = 0")
            backend.set(SCOPE, "key", "2")
            assert (backend.get(SCOPE, "key"), backend.get(SCOPE, "large") == too_large) == ("2", True)

            ask(root, "ALTER USER writer WITH MAX_USER_CONNECTIONS 1")
            backend.close()  # only connections that are made from now on are counted
            backend.get(SCOPE, "key")
            with closing(impatient(text_of(theirs))) as another:
                with pytest.raises(Unavailable, match="max_user_connections"):
                    another.get(SCOPE, "key")
                backend.close()
                assert another.get(SCOPE, "key") == "2"
