"""What users would choose instead, really installed: each in a separate environment, run by a worker.

An environment is made once and kept in the user's cache, in a folder named by what was asked for. A worker is a script
in `rivals/` that runs in it and does what it is told, a line of JSON at a time, and answers with the seconds it took:
so ours and theirs can take turns, each in its own interpreter.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import NotMeasuredError, Scale, Seconds

RIVALS = Path(__file__).with_name("rivals")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airflow-resume-benchmarks"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Packages that are never installed beside ours."""

    name: str
    requirements: tuple[str, ...]

    @property
    def folder(self) -> Path:
        wanted = "\n".join([sys.version, *self.requirements])
        return CACHE / f"{self.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"

    def python(self) -> Path:
        """The interpreter; the environment is made if it does not exist."""
        python = self.folder / "bin" / "python"
        ready = self.folder / ".ready"
        if not ready.exists():
            print(
                f"Installing {' '.join(self.requirements)} for the comparison (once) ...", file=sys.stderr, flush=True
            )
            shutil.rmtree(self.folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
            install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *self.requirements]
            if subprocess.run(install, check=False).returncode != 0:
                raise NotMeasuredError(f"{' '.join(self.requirements)} cannot be installed")
            ready.touch()
        return python


# The one place where the versions of the rivals stand.
DLT = Environment(name="dlt", requirements=("dlt==1.31.0",))
DLT_WITH_POSTGRESQL = Environment(name="dlt", requirements=("dlt[postgres]==1.31.0",))
DBOS = Environment(name="dbos", requirements=("dbos==3.4.0",))
TORCHDATA = Environment(name="torchdata", requirements=("torch==2.13.0", "torchdata==0.11.0", "numpy==2.4.6"))


class Worker:
    """A running rival."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, call: str, **arguments: Any) -> Seconds:
        """The seconds that a call took.

        Raises:
            RuntimeError: The worker has ended; its standard error has the reason.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"call": call, **arguments}) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker {self._process.args!r} has ended")
        return Seconds(json.loads(answer))

    def work(self, call: str, **arguments: Any) -> Callable[[], Seconds]:
        """A subject of `harness.compare`."""
        return partial(self.ask, call, **arguments)


@contextmanager
def worker(environment: Environment, script: str, scale: Scale, *arguments: str) -> Iterator[Worker | None]:
    """A script of `rivals/` in an environment; None if no rivals are wanted."""
    if not scale.allows(environment.name):
        yield None
        return
    command = [str(environment.python()), str(RIVALS / script), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Worker(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()
