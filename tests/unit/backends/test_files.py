"""Nobody but its user may read the file of a database that we make."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest
from sqlalchemy import make_url

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.dialects.registry import dialect_of
from airflow_resume.errors import StoreRefusedError


@pytest.fixture(autouse=True)
def _open_hearted() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in sorted(folder.iterdir())}


def use(url: str) -> None:
    with closing(SqlStoreBackend(url)) as backend:
        SqlStateStore(backend, "scope").set("key", 1)


@pytest.mark.parametrize("form", ["sqlite:///{0}/state.db", "sqlite:///file:{0}/state.db?uri=true&mode=rwc"])
def test_a_file_that_is_made_and_those_beside_it_are_of_their_user_alone(form: str, tmp_path: Path) -> None:
    with closing(SqlStoreBackend(form.format(tmp_path))) as backend:
        SqlStateStore(backend, "scope").set("key", 1)
        assert modes(tmp_path) == dict.fromkeys(["state.db", "state.db-shm", "state.db-wal"], 0o600)
    assert modes(tmp_path) == {"state.db": 0o600}


@pytest.mark.parametrize("name", ["link.db", "missing/../target.db", "a:memory:b.db", "loop/../target.db"])
def test_by_whatever_path_it_is_made_it_is_of_its_user_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "folder")
    (tmp_path / "link.db").symlink_to(tmp_path / "folder" / "target.db")
    use(f"sqlite:///{tmp_path}/{name}")
    files = [file for file in tmp_path.rglob("*.db") if file.is_file()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_file_with_memory_in_its_name_is_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a:memory:b.db"
    use(url)
    with closing(SqlStoreBackend(url)) as backend:
        assert SqlStateStore(backend, "scope").get("key") == 1


def test_with_another_journal_it_is_the_same(tmp_path: Path) -> None:
    with closing(SqlStoreBackend(f"sqlite:///{tmp_path}/state.db")) as backend:
        SqlStateStore(backend, "scope").set("key", 1)
        seen: list[dict[str, int]] = []

        def look(connection: object) -> None:
            connection.exec_driver_sql("PRAGMA journal_mode = DELETE")  # type: ignore[attr-defined]
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # type: ignore[attr-defined]
            connection.exec_driver_sql("DELETE FROM airflow_resume_state")  # type: ignore[attr-defined]
            seen.append(modes(tmp_path))
            connection.exec_driver_sql("ROLLBACK")  # type: ignore[attr-defined]

        backend._database.autocommit(look)
    assert seen == [{"state.db": 0o600, "state.db-journal": 0o600}]


def test_a_file_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch(0o664)
    use(f"sqlite:///{tmp_path}/state.db")
    assert modes(tmp_path) == {"state.db": 0o664}


def test_of_several_processes_that_come_first_none_leaves_it_open(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    processes = [get_context("spawn").Process(target=use, args=(url,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4
    assert modes(tmp_path) == {"state.db": 0o600}


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_no_file_is_made_where_none_is_to_be(mode: str, tmp_path: Path) -> None:
    with pytest.raises(StoreRefusedError):
        use(f"sqlite:///file:{tmp_path}/state.db?mode={mode}&uri=true")
    assert modes(tmp_path) == {}


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////srv/a%20b.db", "/srv/a b.db"),
        ("sqlite:///file:/srv/a%20b.db?uri=true", "/srv/a b.db"),
        ("sqlite:///file:///srv/x.db?uri=true", "/srv/x.db"),
        ("sqlite:///file://localhost/srv/x.db?uri=true", "/srv/x.db"),
        ("sqlite:///file:x.db?mode=memory&uri=true", None),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///file::memory:?uri=true", None),
        ("sqlite:///a:memory:b.db", "a:memory:b.db"),
        ("postgresql://h/db", None),
    ],
)
def test_the_file_of_a_url(url: str, file: str | None) -> None:
    dialect = dialect_of(make_url(url).get_backend_name())
    assert dialect is not None
    assert dialect.file_of(make_url(url)) == (None if file is None else Path(file))
