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

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.command import mounts
from airflow_resume.command.facts import Answers, Facts, File, Rows
from airflow_resume.command.findings import Finding, Level, judge
from airflow_resume.command.mounts import find, is_network

Command = Callable[..., Any]

SERVER = Answers(
    product="MariaDB 10.11", schema=1, rows=Rows(all=5, expired=0), packet_limit=16 * 2**20, clock_seconds=0.1
)
LOCAL = File(path=Path("/srv/state.db"), exists=True, writable=True, file_system="ext4")
FILE = Answers(product="SQLite 3.40", schema=1, rows=Rows(all=5, expired=2), journal="wal", synchronous="full")

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
/dev/sdb1 /srv xfs rw 0 0
host:/export /srv/with\\040space nfs4 rw 0 0
me@host:/ /home fuse.sshfs rw 0 0
tmpfs /home tmpfs rw 0 0
"""


def bad(facts: Facts) -> list[Finding]:
    return [finding for finding in judge(facts) if finding.level is not Level.OK]


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
        (Facts(trouble="nobody answers"), Level.ERROR, "connection", "nobody answers"),
        (Facts(file=replace(LOCAL, writable=False)), Level.ERROR, "file", "cannot be written"),
        (Facts(file=replace(LOCAL, exists=False)), Level.WARNING, "file", "does not exist"),
        (Facts(file=replace(LOCAL, file_system="nfs4")), Level.WARNING, "file system", "nfs4, of the network"),
        (Facts(answers=replace(SERVER, schema=0)), Level.WARNING, "schema", "no tables"),
        (Facts(answers=replace(SERVER, schema=9)), Level.ERROR, "schema", "version 9 of the tables"),
        (Facts(answers=replace(FILE, journal="delete")), Level.WARNING, "journal", "delete, synchronous full"),
        (Facts(answers=replace(SERVER, packet_limit=2**20)), Level.WARNING, "max_allowed_packet", "1048576 bytes"),
        (Facts(answers=replace(SERVER, clock_seconds=5.1)), Level.WARNING, "clock", "5.1 s ahead"),
        (Facts(answers=replace(SERVER, clock_seconds=-60.0)), Level.WARNING, "clock", "60.0 s behind"),
    ],
)
def test_each_fault_is_found_with_a_remedy(facts: Facts, level: Level, about: str, found: str) -> None:
    (finding,) = bad(facts)
    assert (finding.level, finding.about) == (level, about)
    assert found in finding.found
    assert finding.remedy.endswith((".", "?"))


@pytest.mark.parametrize(
    "facts",
    [
        Facts(file=LOCAL, answers=FILE),
        Facts(answers=SERVER),
        Facts(answers=replace(SERVER, clock_seconds=-5.0)),
        Facts(file=replace(LOCAL, file_system=None), answers=replace(FILE, journal="memory")),
    ],
)
def test_what_is_well_is_not_complained_of(facts: Facts) -> None:
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
    assert find(Path(path), MOUNTS) == kind


def test_without_proc_nothing_is_known_of_a_file_system(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "none")
    assert "ok     file system  not known" in command("doctor", made).out


def test_a_file_on_a_network_file_system_is_a_warning(
    command: Command, made: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(f"{MOUNTS}host:/x {tmp_path} cifs rw 0 0\n")
    code, out, _ = command("doctor", made)
    assert (code, "warning  file system  cifs, of the network" in out) == (0, True)


def test_file_systems_of_the_network_are_known_by_name() -> None:
    assert all(map(is_network, ("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph")))
    assert not any(map(is_network, ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "fuse.ntfs", "apfs", "zfs")))
