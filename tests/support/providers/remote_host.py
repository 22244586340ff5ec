"""A real SSH server on loopback with real processes: asyncssh, which hands each command to bash.

The processes run until the test lets them end. `RemoteHost` is the `JobService` of `check_operator`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
import psutil

from processes import is_alive

if TYPE_CHECKING:
    from typing_extensions import Self

    from airflow_resume.testing.operators.service import Moment

GLANCE = 0.01


@dataclass(eq=False)
class RemoteJob:
    """One job: its directory, and the process in it.

    Args:
        folder: of the job.
        request: the remote command that started it.
        was_cancelled: whether a kill was sent while it was alive.
        is_forgotten: whether its folder was removed.
        questions: how often it was asked for.
        process: known also when the folder is gone, and not mistaken for a later one with its pid.
    """

    folder: Path
    request: str = ""
    was_cancelled: bool = False
    is_forgotten: bool = False
    questions: int = 0
    process: psutil.Process | None = None

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def pid(self) -> int | None:
        with suppress(FileNotFoundError, ValueError):
            return int((self.folder / "pid").read_text())
        return None

    @property
    def is_alive(self) -> bool:
        if self.is_forgotten or (self.folder / "exit_code").exists():
            return False
        if self.process is None and self.pid is not None:
            try:
                self.process = psutil.Process(self.pid)
            except psutil.NoSuchProcess:
                return False
        return self.process is None or is_alive(self.process)


class RemoteHost:
    """The server, and the jobs in its folder `jobs`.

    Args:
        home: an empty folder.
    """

    running: Any = "running"
    succeeded: Any = "0"
    failed: Any = "3"
    unknown: Any = None

    def __init__(self, home: Path) -> None:
        self.base = home / "jobs"
        self._ends = home / "ends"
        self.script = home / "job"
        self.tell: Callable[[Moment], None] = lambda _moment: None
        self._jobs: dict[Path, RemoteJob] = {}
        self._states: list[str] = ["0"]
        self._breaks = 0
        self._discovery = threading.Lock()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._connections: set[Any] = set()
        self._ends.mkdir(parents=True)
        self.script.write_text(
            f'end={self._ends}/$(basename "$(dirname "$LOG_FILE")")\n'
            'echo "begun"; while test ! -e "$end"; do sleep 0.01; done; exit "$(cat "$end")"\n'
        )

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_error: object) -> None:
        self.reset()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def connection(self) -> str:
        """What AIRFLOW_CONN_... is set to."""
        extra = {"no_host_key_check": "true", "allow_host_key_change": "true", "look_for_keys": "false"}
        return json.dumps(
            {"conn_type": "ssh", "host": "127.0.0.1", "port": self.port, "login": "u", "password": "p", "extra": extra}
        )

    @property
    def command(self) -> str:
        """A command that runs until the test lets it end."""
        return f"bash {self.script}"

    # --- what check_operator orders -------------------------------------------------------------------------------

    def reset(self) -> None:
        for job in self._jobs.values():
            self._end(job)
        self._jobs.clear()
        self._breaks = 0
        shutil.rmtree(self.base, ignore_errors=True)
        for end in self._ends.iterdir():  # the next job may have the same id, and would end as soon as it begins
            end.unlink()

    def follow(self, states: Sequence[str], /) -> None:
        self._states = list(states)
        for job in self._jobs.values():
            job.questions = 0

    def seen(self) -> list[RemoteJob]:
        return list(self._jobs.values())

    def forget(self, job_id: Any, /) -> None:
        for job in self._jobs.values():
            if job.id == job_id:
                self._end(job)
                job.is_forgotten = True

    def fail_next(self, _status: int, /) -> None:
        self._breaks += 1

    def let_end(self, job: RemoteJob, code: str = "0") -> None:
        """Let its process end by itself."""
        written = self.base.parent / f"end of {job.id}"  # renamed, so that its process never sees an empty file
        written.write_text(code)
        written.replace(self._ends / job.id)

    def end_process(self, job: RemoteJob) -> None:
        """Kill it, as somebody on the host might."""
        if job.is_alive and job.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGKILL)

    def _end(self, job: RemoteJob) -> None:
        self.end_process(job)
        shutil.rmtree(job.folder, ignore_errors=True)

    # --- the server -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        connections = self._connections

        class Anyone(asyncssh.SSHServer):  # type: ignore[misc]
            def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
                connections.add(conn)

            def begin_auth(self, username: str) -> bool:
                return False

        self._server = await asyncssh.create_server(
            Anyone,
            "127.0.0.1",
            0,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            process_factory=self._process,
        )
        self.port = self._server.get_port()

    async def _close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.abort()
        await self._server.wait_closed()
        await asyncio.sleep(10 * GLANCE)
        await self._loop.shutdown_default_executor()

    async def _process(self, process: Any) -> None:
        try:
            out, code = await asyncio.to_thread(self._answer, process.command)
        except ConnectionError:
            process.channel.get_connection().abort()
            return
        process.stdout.write(out)
        process.exit(code)

    def _answer(self, command: str) -> tuple[str, int]:
        self.tell("request")
        if "job_script=" in command:
            return self._start(command)
        job = next((job for job in self.seen() if str(job.folder) in command), None)
        if job is not None and "kill -TERM" in command:
            job.was_cancelled = job.was_cancelled or job.is_alive
        if job is not None and "exit_code" in command:
            self._ask(job)
        return self._bash(command)

    def _bash(self, command: str) -> tuple[str, int]:
        ended = subprocess.run(
            ["/bin/bash", "-c", command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        return ended.stdout, ended.returncode

    def _start(self, command: str) -> tuple[str, int]:
        answer = self._bash(command)
        with self._discovery:
            new = [RemoteJob(folder, command) for folder in self.base.iterdir() if folder not in self._jobs]
            self._jobs |= {job.folder: job for job in new}
        for job in new:
            while job.pid is None and job.is_alive:  # so that each run of a test has the same questions
                time.sleep(GLANCE)
            self.tell("made")
        return answer

    def _ask(self, job: RemoteJob) -> None:
        """Move on to the next state, and let the process end if it is one of an end."""
        if self._breaks:
            self._breaks -= 1
            raise ConnectionAbortedError
        state = self._states[min(job.questions, len(self._states) - 1)]
        job.questions += 1
        if state.isdigit() and not job.is_forgotten:
            self.let_end(job, state)
            deadline = time.monotonic() + 5
            while job.is_alive and time.monotonic() < deadline:
                time.sleep(GLANCE)
        self.tell("asked")
