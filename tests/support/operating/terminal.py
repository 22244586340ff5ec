"""The command as a person types it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import NamedTuple

from airflow_resume.operating.api import URL

COMMAND = [sys.executable, "-c", "import sys; from airflow_resume.command import main; sys.exit(main())"]


class Said(NamedTuple):
    """What the command has said."""

    code: int
    out: str
    err: str

    @property
    def requests(self) -> int:
        """How many requests were made, which the command says with `-v`."""
        found = re.search(r"^(\d+) requests to ", self.err, re.MULTILINE)
        assert found is not None, self.err
        return int(found[1])


def typed(url: str, *arguments: str) -> Said:
    """Run the command against the Airflow at this address."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, env={**os.environ, URL: url}
    )
    print("$ airflow-resume", *arguments, f"\n{done.stdout}{done.stderr}")
    return Said(done.returncode, done.stdout, done.stderr)
