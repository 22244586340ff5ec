"""A job service on loopback that runs each job in a separate process.

    python job_service.py --port 0 --folder jobs --port-file port

| request | answer |
|---|---|
| `POST /jobs {"token": text or null, "label": text, "seconds": number}` | `{"id": n}`, from 0 upward |
| the same with `"once": true` | as above, or the job that has the token already |
| `GET /jobs/ID`, `GET /jobs?token=T` | a job; the jobs with a token, newest first |
| `GET /jobs?token_prefix=P` | the jobs whose token begins with it, newest first |
| `GET /jobs/ID/result` | `{carrier: mean arrival delay}`, 409 while there is none |
| `DELETE /jobs/ID` | cancels, answers once the process has ended |
| `POST /hurry {"label": text}` | the jobs with the label, and those to come, take no longer than they must |
| `GET /stats?label=L` | `{"submitted", "alive", "max_alive", "cancels"}` |
| `POST /holds`, `GET /holds/ID`, `DELETE /holds/ID` | see `holds`; the label is that of the job |

Theory of operation: one lock around everything that starts, ends or looks at a process. Processes are looked
at when somebody asks. As the number of live jobs can only grow at a start, counting the live processes right
after each start finds the most that were ever alive at the same instant.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flights_source import published_csv
from job import HURRY
from json_request import ConflictError, JsonText, NotFoundError, Request
from json_service import JsonService, start_arguments

_JOB = Path(__file__).with_name("job.py")
_GRACE = 2.0
"""Seconds that a job has to end after SIGTERM."""


@dataclass(kw_only=True)
class Job:
    """A submitted job and its process."""

    number: int
    token: str | None
    label: str
    seconds: float
    result: Path
    process: subprocess.Popen[bytes]
    cancelled: bool = False

    @property
    def alive(self) -> bool:
        """Whether the process runs; one that has ended is reaped here."""
        return self.process.poll() is None

    @property
    def status(self) -> str:
        """RUNNING until the process has really ended."""
        if self.alive:
            return "RUNNING"
        if self.process.returncode == 0:
            return "SUCCEEDED"
        return "CANCELLED" if self.cancelled else "FAILED"

    def end(self) -> None:
        """End the process group, and wait until the process has ended. It may have ended already."""
        if not self.alive:
            return
        self.cancelled = True
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def describe(self) -> dict[str, object]:
        """The description of the job for clients."""
        return {
            "id": self.number,
            "status": self.status,
            "token": self.token,
            "label": self.label,
            "seconds": self.seconds,
            "pid": self.process.pid,
        }


class JobService(JsonService):
    """Runs jobs and answers questions about them."""

    def __init__(self, *, folder: Path, flights: Path | None = None, port: int = 0) -> None:
        super().__init__(port=port)
        self._folder = folder
        self._flights = flights or published_csv()
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self._max_alive: dict[str, int] = {}
        self._cancels: Counter[str] = Counter()
        self._in_a_hurry: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def respond(self, request: Request) -> object:  # noqa: PLR0911  one for each line of the table
        """Answer by the table at the top of the module."""
        with self._lock:
            match request.route:
                case ("POST", "jobs"):
                    return {"id": (self._recognised(request) or self._submit(request)).number}
                case ("GET", "jobs"):
                    return [job.describe() for job in self._asked_for(request)]
                case ("GET", "jobs", number):
                    return self._job(number).describe()
                case ("GET", "jobs", number, "result"):
                    return self._result(self._job(number))
                case ("DELETE", "jobs", number):
                    return self._cancel(self._job(number))
                case ("POST", "hurry"):
                    return self._hurry(request.field("label", str))
                case ("GET", "stats"):
                    return self._stats(request.query.get("label", ""))
                case _:
                    raise NotFoundError(f"{request.method} {request.path} is not offered")

    def close(self) -> None:
        """End and reap every job."""
        with self._lock:
            for job in self._jobs:
                job.end()

    def _submit(self, request: Request) -> Job:
        number = len(self._jobs)
        result = self._folder / f"{number}.json"
        seconds = float(request.field("seconds", (int, float)))
        token = request.optional("token", str)
        job = Job(
            number=number,
            token=token,
            label=request.label,
            seconds=seconds,
            result=result,
            process=self._start(result, 0.0 if request.label in self._in_a_hurry else seconds),
        )
        self._jobs.append(job)
        self._max_alive[job.label] = max(self._max_alive.get(job.label, 0), self._alive(job.label))
        return job

    def _start(self, result: Path, seconds: float) -> subprocess.Popen[bytes]:
        for leftover in (result, result.with_suffix(HURRY)):
            leftover.unlink(missing_ok=True)
        command = [sys.executable, str(_JOB), "--flights", str(self._flights), "--seconds", str(seconds)]
        return subprocess.Popen(
            [*command, "--result", str(result), "--parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _cancel(self, job: Job) -> dict[str, object]:
        self._cancels[job.label] += 1
        job.end()
        return job.describe()

    def _hurry(self, label: str) -> object:
        self._in_a_hurry.add(label)
        for job in self._jobs:
            if job.label == label:
                job.result.with_suffix(HURRY).touch()
        return {}

    def _recognised(self, request: Request) -> Job | None:
        token = request.optional("token", str)
        if token is None or not request.optional("once", bool):
            return None
        return next((job for job in self._jobs if job.token == token), None)

    def _asked_for(self, request: Request) -> Iterator[Job]:
        token, prefix = request.query.get("token"), request.query.get("token_prefix", "")
        newest_first = (job for job in reversed(self._jobs) if token in (None, job.token))
        return (job for job in newest_first if (job.token or "").startswith(prefix))

    def _job(self, number: str) -> Job:
        if not number.isdecimal() or int(number) >= len(self._jobs):
            raise NotFoundError(f"no job {number}")
        return self._jobs[int(number)]

    def _result(self, job: Job) -> JsonText:
        if job.status != "SUCCEEDED":
            raise ConflictError(f"job {job.number} is {job.status}")
        return JsonText(job.result.read_text())

    def _alive(self, label: str) -> int:
        return sum(job.alive for job in self._jobs if job.label == label)

    def _stats(self, label: str) -> object:
        return {
            "submitted": sum(job.label == label for job in self._jobs),
            "alive": self._alive(label),
            "max_alive": self._max_alive.get(label, 0),
            "cancels": self._cancels[label],
        }


def main() -> None:
    """Run jobs until stopped."""
    parser = start_arguments(main.__doc__ or "")
    parser.add_argument("--folder", type=Path, required=True, help="where results are written")
    parser.add_argument("--flights", type=Path, help="another zipped CSV file")
    arguments = parser.parse_args()
    service = JobService(folder=arguments.folder, flights=arguments.flights, port=arguments.port)
    service.serve(arguments.port_file)


if __name__ == "__main__":
    main()
