from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import make_url

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.backends.dialects.base import Journal
from airflow_resume.command import database_doctor as doctor
from airflow_resume.command.console import Finding, Severity
from airflow_resume.command.database_doctor import (
    Answers,
    DatabaseFacts,
    File,
    RowCounts,
    innermost_mount,
    is_network,
    judge,
)

Command = Callable[..., Any]

SERVER = Answers(
    product="MariaDB 10.11", schema=2, rows=RowCounts(all=5, expired=0), packet_limit=16 * 2**20, clock_seconds=0.1
)
LOCAL = File(path=Path("/srv/state.db"), exists=True, writable=True, file_system="ext4")
FILE = Answers(product="SQLite 3.40", schema=2, rows=RowCounts(all=5, expired=2), journal=Journal("wal", "full"))

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
/dev/sdb1 /srv xfs rw 0 0
host:/export /srv/with\\040space nfs4 rw 0 0
me@host:/ /home fuse.sshfs rw 0 0
tmpfs /home tmpfs rw 0 0
"""


def bad(facts: DatabaseFacts) -> list[Finding]:
    return [finding for finding in judge(facts) if finding.level is not Severity.OK]


def test_all_is_well_with_a_new_database_and_every_finding_says_so(command: Command, made: str) -> None:
    code, out, _ = command("doctor", made, "-o", "json")
    findings = {finding["about"]: finding for finding in json.loads(out)["findings"]}
    assert list(findings) == ["file", "file system", "database", "schema", "journal", "values"]
    assert {finding["level"] for finding in findings.values()} == {"ok"}
    assert (code, findings["journal"]["found"]) == (0, "wal, synchronous full")


def test_values_are_counted(command: Command, url: str) -> None:
    scope = TaskScope(dag_id="dag", run_id="run", task_id="task")
    with closing(SqlStoreBackend(url)) as backend:
        backend.set(scope, "over", "1", expires_at=datetime.now(timezone.utc) - timedelta(hours=1))
        backend.set(scope, "endless", "1")
    found, remedy = command("doctor", url).out.splitlines()[-2:]
    assert found.split(maxsplit=2) == ["ok", "values", "2, 1 expired"]
    assert remedy.strip() == "-> `airflow-resume cleanup` deletes what has expired."


def test_what_is_not_there_is_a_warning_and_is_not_made(command: Command, url: str, tmp_path: Path) -> None:
    code, out, _ = command("doctor", url)
    assert (code, "warning  file" in out, list(tmp_path.iterdir())) == (0, True, [])


@pytest.mark.parametrize("error", [PermissionError, OSError])
def test_a_file_that_one_may_not_look_at_is_an_error_and_no_traceback(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    def stat(*_: object, **__: object) -> None:
        raise error(36, "no")

    monkeypatch.setattr(Path, "exists", stat)
    code, out, _ = command("doctor", url)
    assert (code, "does not exist" in out) == (0, True)
    assert command("cleanup", url).code == 1


def test_files_that_others_may_read_are_a_warning_and_stay_as_they_are(command: Command, made: str) -> None:
    file = Path(make_url(made).database or "")
    assert "permissions" not in command("doctor", made).out
    file.chmod(0o640)
    code, out, _ = command("doctor", made)
    assert (code, "warning  permissions" in out, "may read or write state.db\n" in out) == (0, True, True)
    assert file.stat().st_mode & 0o777 == 0o640


def test_no_tables_are_made(command: Command, url: str, tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    code, out, _ = command("doctor", url)
    assert (code, "no tables" in out, (tmp_path / "state.db").stat().st_size) == (0, True, 0)


def test_trouble_is_an_error_with_a_remedy(command: Command, url: str, tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database " * 100)
    code, out, err = command("doctor", url, "-o", "json")
    (finding,) = [finding for finding in json.loads(out)["findings"] if finding["level"] == "error"]
    assert (code, err, finding["about"]) == (1, "", "connection")
    assert "not a database" in finding["found"]


def test_in_memory_there_is_no_file_to_look_at(command: Command) -> None:
    code, out, _ = command("doctor", "sqlite://")
    assert (code, "no tables" in out, "file" in out) == (0, True, False)


@pytest.mark.parametrize(
    ("facts", "level", "about", "found"),
    [
        (DatabaseFacts(trouble="nobody answers"), Severity.ERROR, "connection", "nobody answers"),
        (DatabaseFacts(file=replace(LOCAL, writable=False)), Severity.ERROR, "file", "cannot be written"),
        (DatabaseFacts(file=replace(LOCAL, exists=False)), Severity.WARNING, "file", "does not exist"),
        (
            DatabaseFacts(file=replace(LOCAL, file_system="nfs4")),
            Severity.WARNING,
            "file system",
            "nfs4, of the network",
        ),
        (
            DatabaseFacts(file=replace(LOCAL, open_to_others=["a.db"])),
            Severity.WARNING,
            "permissions",
            "may read or write a.db",
        ),
        (DatabaseFacts(answers=replace(SERVER, schema=0)), Severity.WARNING, "schema", "no tables"),
        (DatabaseFacts(answers=replace(SERVER, schema=9)), Severity.WARNING, "schema", "knows 2; it can use them"),
        (
            DatabaseFacts(answers=replace(SERVER, schema=9, usable=False)),
            Severity.ERROR,
            "schema",
            "version 9 of the tables",
        ),
        (
            DatabaseFacts(answers=replace(FILE, journal=Journal("delete", "full"))),
            Severity.WARNING,
            "journal",
            "delete, synchronous full",
        ),
        (
            DatabaseFacts(answers=replace(SERVER, packet_limit=2**20)),
            Severity.WARNING,
            "max_allowed_packet",
            "1048576 bytes",
        ),
        (DatabaseFacts(answers=replace(SERVER, clock_seconds=5.1)), Severity.WARNING, "clock", "5.1 s ahead"),
        (DatabaseFacts(answers=replace(SERVER, clock_seconds=-60.0)), Severity.WARNING, "clock", "60.0 s behind"),
    ],
)
def test_each_fault_is_found_with_a_remedy(facts: DatabaseFacts, level: Severity, about: str, found: str) -> None:
    (finding,) = bad(facts)
    assert (finding.level, finding.about) == (level, about)
    assert found in finding.found
    assert finding.remedy.endswith((".", "?"))


@pytest.mark.parametrize(
    "facts",
    [
        DatabaseFacts(file=LOCAL, answers=FILE),
        DatabaseFacts(answers=SERVER),
        DatabaseFacts(answers=replace(SERVER, clock_seconds=-5.0)),
        DatabaseFacts(file=replace(LOCAL, file_system=None), answers=replace(FILE, journal=Journal("memory", "full"))),
    ],
)
def test_what_is_well_is_not_complained_of(facts: DatabaseFacts) -> None:
    assert bad(facts) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/state.db", "ext4"),
        ("/srv/state.db", "xfs"),
        ("/srv/with space/state.db", "nfs4"),
        ("/srv/with spaces/state.db", "xfs"),
        ("/home/state.db", "tmpfs"),
    ],
)
def test_the_innermost_and_last_mount_of_a_path_is_its_own(path: str, kind: str) -> None:
    assert innermost_mount(Path(path), MOUNTS) == kind


def test_without_proc_nothing_is_known_of_a_file_system(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "MOUNTS", tmp_path / "none")
    assert "ok     file system  not known" in command("doctor", made).out


def test_a_file_on_a_network_file_system_is_a_warning(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(f"{MOUNTS}host:/x {tmp_path} cifs rw 0 0\n")
    code, out, _ = command("doctor", made)
    assert (code, "warning  file system  cifs, of the network" in out) == (0, True)


def test_file_systems_of_the_network_are_known_by_name() -> None:
    assert all(map(is_network, ("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph")))
    assert not any(map(is_network, ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.ntfs", "apfs", "zfs")))
