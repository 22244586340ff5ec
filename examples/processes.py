"""Processes that are started together and stopped together, with everything that they started.

Airflow's processes fork others, into separate sessions, and rename themselves; a task whose supervisor
was killed is nobody's child any more. What all of them keep is the environment, so each family has a mark in
it, and whoever carries the mark, or descends from one who does, is a member.

Theory of operation: `stop` asks the started processes to end, then kills members until none is left. In case
the process that should call it is killed itself, a guard (this file run as a program) waits at the other end
of a pipe; when the pipe closes, it kills the members.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from signal import SIGTERM

import psutil

_MARK = "PROCESS_FAMILY"
_GLANCE = 0.02
_EXEC_PATIENCE = 2.0
"""The most seconds to wait for an exec, which takes a few milliseconds."""


class ProcessEndedError(RuntimeError):
    """A process that should run has ended."""

    def __init__(self, name: str, code: int, last_lines: str) -> None:
        super().__init__(f"{name} ended with code {code}. The end of its log:\n{last_lines}")
        self.name = name
        self.code = code
        self.last_lines = last_lines


class SurvivorsError(RuntimeError):
    """Some processes could not be ended."""

    def __init__(self, survivors: Iterable[psutil.Process]) -> None:
        super().__init__(f"still alive: {', '.join(map(str, survivors))}")


class ProcessFamily:
    """Processes that share an environment, each in a separate session, so that Ctrl-C does not reach them.

    Args:
        environment: The whole environment of the processes.
        logs: The folder for their output, a file for each.

    Several threads may use one family.
    """

    def __init__(self, environment: Mapping[str, str], *, logs: Path) -> None:
        self._mark = uuid.uuid4().hex
        # Without SPT_NOENV, a process that renames itself overwrites its environment, and so the mark.
        self._environment = {**environment, _MARK: self._mark, "SPT_NOENV": "1"}
        self._logs = logs
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        """Start a process that should run until `stop`; `environment` overrides the shared one."""
        self._be_guarded()
        self._started[name] = self._spawn(name, command, environment or {})

    def _spawn(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        self._logs.mkdir(parents=True, exist_ok=True)
        with self._log(name).open("wb") as log:
            return subprocess.Popen(
                command,
                env={**self._environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, name: str, command: Sequence[str]) -> None:
        """Start a process and wait for its success.

        Raises:
            ProcessEndedError: If it fails.
        """
        self._be_guarded()
        with self._spawn(name, command, {}) as process:
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                raise
        if code != 0:
            raise self._ended(name, code)

    def _be_guarded(self) -> None:
        if self._guard is None:
            self._guard = _start_guard(self._mark)
            atexit.register(self.stop)

    def kill(self, name: str) -> None:
        """SIGKILL a process of the family with everything that it started; `check` does not expect it any more."""
        started = self._started.pop(name)
        kill(reversed(_family_of(started)))
        started.wait()

    def terminate(self, name: str) -> subprocess.Popen[bytes]:
        """SIGTERM a process with everything that it started, as a service manager does; `check` does not expect it.

        Returns:
            The process, to wait for.
        """
        started = self.release(name)
        for process in _family_of(started):
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        return started

    def pid_of(self, name: str) -> int:
        """The pid of a process that was started."""
        return self._started[name].pid

    def release(self, name: str) -> subprocess.Popen[bytes]:
        """A process that may end from now on: `check` does not expect it any more."""
        return self._started.pop(name)

    def check(self) -> None:
        """Check that all started processes run.

        Raises:
            ProcessEndedError: If one has ended.
        """
        for name, process in list(self._started.items()):
            code = process.poll()
            if code is not None and self._started.get(name) is process:
                raise self._ended(name, code)

    def members(self) -> set[psutil.Process]:
        """All members of the family that are alive."""
        return _members(self._mark) | {member for process in self._running() for member in _family_of(process)}

    def stop(self, *, patience: float = 2.0) -> None:
        """End and reap every member. It may be called again, also after it was interrupted.

        Args:
            patience: Seconds between asking and killing.

        Raises:
            SurvivorsError: If some cannot be ended.
        """
        known = self.members()
        for process in self._running():
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.killpg(process.pid, SIGTERM)
        _wait_until(lambda: not self._running(), patience)
        _kill_all(self._mark, known)
        for process in self._started.values():
            process.wait()
        self._started.clear()
        self._dismiss_guard()
        atexit.unregister(self.stop)

    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in list(self._started.values()) if process.poll() is None]

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _ended(self, name: str, code: int) -> ProcessEndedError:
        lines = self._log(name).read_text(errors="replace").splitlines()
        return ProcessEndedError(name, code, "\n".join(lines[-30:]))


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL processes; some may have ended already."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def with_descendants(process: psutil.Process) -> list[psutil.Process]:
    """A process and its living descendants."""
    with suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return [process]


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended. A zombie has; reaping it is up to its parent."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _family_of(started: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A process that was started, unless it was reaped by another thread meanwhile, and its descendants."""
    with suppress(psutil.NoSuchProcess):
        return with_descendants(psutil.Process(started.pid))
    return []


def _members(mark: str) -> set[psutil.Process]:
    environments = {process: _environment(process) for process in psutil.process_iter()}
    if silent := [process for process, environment in environments.items() if not environment]:
        # A process that is in the middle of an exec has none until that is over.
        _wait_until(lambda: not any(map(_is_in_exec, silent)), _EXEC_PATIENCE)
        environments |= {process: _environment(process) for process in silent}
    marked = [process for process, environment in environments.items() if environment.get(_MARK) == mark]
    return {member for process in marked for member in with_descendants(process)}


def _environment(process: psutil.Process) -> Mapping[str, str]:
    # Other people's processes do not show theirs, and those which have ended have none.
    with suppress(psutil.Error, OSError):
        return process.environ()
    return {}


def _is_in_exec(process: psutil.Process) -> bool:
    # It has a program, which threads of the kernel and processes that have ended do not, and no arguments yet.
    with suppress(psutil.Error, OSError):
        return bool(process.exe()) and not process.cmdline()
    return False


def _kill_all(mark: str, known: Iterable[psutil.Process] = (), *, patience: float = 10.0) -> None:
    # A member may start another while it is being killed: look until a look finds none.
    deadline = time.monotonic() + patience
    targets = {*known, *_members(mark)}
    while targets := _alive(targets):
        if time.monotonic() > deadline:
            raise SurvivorsError(targets)
        kill(targets)
        _wait_until(partial(_none_alive, targets), 0.5)
        targets |= _members(mark)


def _alive(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    return {process for process in processes if is_alive(process)}


def _none_alive(processes: Iterable[psutil.Process]) -> bool:
    return not any(map(is_alive, processes))


def _wait_until(condition: Callable[[], bool], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition() and time.monotonic() < deadline:
        time.sleep(_GLANCE)


def _start_guard(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, mark], stdin=subprocess.PIPE, start_new_session=True)


def _stand_guard(mark: str) -> None:
    # The pipe closes when the family's owner closes it, or is gone.
    sys.stdin.read()
    _kill_all(mark)


if __name__ == "__main__":
    _stand_guard(sys.argv[1])
