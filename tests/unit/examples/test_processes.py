from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import processes
from processes import ProcessEndedError, ProcessFamily, is_alive

Eventually = Callable[[Callable[[], object]], None]

SLEEP = ["sleep", "600"]
# A child in another session whose parent ends at once: nobody's child, as a task whose supervisor was killed.
ORPHAN = ["sh", "-c", "setsid sleep 600 & exec sleep 600"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 600; done"]


@pytest.fixture
def family(tmp_path: Path) -> Iterator[ProcessFamily]:
    made = ProcessFamily(os.environ, logs=tmp_path)
    yield made
    made.stop(patience=0)


def test_stopping_ends_everything_that_was_started(family: ProcessFamily, eventually: Eventually) -> None:
    family.start("plain", SLEEP)
    family.start("parent", ORPHAN)
    eventually(lambda: len(family.members()) == 3)
    members = family.members()
    family.stop()
    assert not any(map(is_alive, members))
    assert family.members() == set()
    family.stop()


def test_orphans_stay_members(family: ProcessFamily, eventually: Eventually) -> None:
    family.start("parent", ORPHAN)
    eventually(lambda: len(family.members()) == 2)
    parent = next(member for member in family.members() if member.ppid() == os.getpid())
    parent.kill()
    eventually(lambda: len(family.members()) == 1)


def test_a_member_in_the_middle_of_an_exec_has_no_environment_until_that_is_over_and_is_found(
    family: ProcessFamily, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    family.start("parent", ORPHAN)
    eventually(lambda: len(family.members()) == 2)
    next(member for member in family.members() if member.ppid() == os.getpid()).kill()
    eventually(lambda: len(family.members()) == 1)
    (orphan,) = family.members()
    environ, cmdline, looks = psutil.Process.environ, psutil.Process.cmdline, list(range(5))

    def none_yet(process: psutil.Process) -> list[str]:
        if process == orphan and looks:
            looks.pop()
            return []
        return cmdline(process)

    def none_until_then(process: psutil.Process) -> dict[str, str]:
        return {} if process == orphan and looks else environ(process)

    monkeypatch.setattr(psutil.Process, "cmdline", none_yet)
    monkeypatch.setattr(psutil.Process, "environ", none_until_then)
    assert family.members() == {orphan}


def test_a_process_that_was_given_no_environment_is_in_no_exec_when_that_is_over(eventually: Eventually) -> None:
    with subprocess.Popen(SLEEP, env={}) as program:
        process = psutil.Process(program.pid)
        try:
            eventually(lambda: not processes._is_in_exec(process))  # it may be yet when Popen returns
            assert process.environ() == {}
        finally:
            program.kill()


@pytest.mark.parametrize("ask", [ProcessFamily.members, ProcessFamily.stop])
def test_others_may_start_and_reap_processes_meanwhile(
    family: ProcessFamily, monkeypatch: pytest.MonkeyPatch, ask: Callable[[ProcessFamily], object]
) -> None:
    family.start("ends", SLEEP)
    family.start("stays", SLEEP)
    ends, stays = family._started.values()
    poll = ends.poll
    steps: list[Callable[[], object]] = [
        lambda: family.start("late", SLEEP),
        lambda: os.kill(ends.pid, signal.SIGKILL),
        ends.wait,
    ]
    others = iter(steps)

    def meanwhile() -> int | None:
        code = poll()
        for another in others:
            another()
        return code

    monkeypatch.setattr(ends, "poll", meanwhile)
    ask(family)
    assert ends.returncode is not None
    assert (stays.poll() is None) == (ask is ProcessFamily.members)


def test_who_does_not_end_when_asked_is_killed(family: ProcessFamily, tmp_path: Path, eventually: Eventually) -> None:
    family.start("stubborn", STUBBORN)
    eventually((tmp_path / "stubborn.log").read_text)
    family.stop(patience=0.01)
    assert family.members() == set()


def test_a_process_that_ends_early_is_named_with_the_end_of_its_log(
    family: ProcessFamily, eventually: Eventually
) -> None:
    family.start("plain", SLEEP)
    family.check()
    family.start("short", ["sh", "-c", "echo what went wrong; exit 3"])
    eventually(lambda: len(family.members()) == 1)
    with pytest.raises(ProcessEndedError, match=r"short ended with code 3.*\n.*what went wrong"):
        family.check()


def test_running_a_process_waits_for_its_success(family: ProcessFamily) -> None:
    family.run("good", ["true"])
    family.check()
    with pytest.raises(ProcessEndedError, match="bad ended with code 1"):
        family.run("bad", ["false"])


def test_one_process_may_have_an_environment_of_its_own_and_is_a_member_all_the_same(
    family: ProcessFamily, tmp_path: Path, eventually: Eventually
) -> None:
    family.start("other", ["sh", "-c", "echo $HOME; exec sleep 600"], environment={"HOME": "/elsewhere"})
    eventually(lambda: (tmp_path / "other.log").read_text() == "/elsewhere\n")
    assert len(family.members()) == 1


def test_a_family_whose_owner_is_killed_does_not_survive(tmp_path: Path, eventually: Eventually) -> None:
    owner = (
        "import os, pathlib, time, processes\n"
        f"family = processes.ProcessFamily(os.environ, logs=pathlib.Path({str(tmp_path)!r}))\n"
        f"family.start('plain', {SLEEP!r})\n"
        "print(*(member.pid for member in family.members()), flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", owner]
    folder = Path(processes.__file__).parent
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        member = psutil.Process(int(program.stdout.readline()))
        program.kill()
    eventually(lambda: not is_alive(member))
