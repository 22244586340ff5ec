"""What an exception means that is raised by an attempt, an oracle, or the function that makes a world.

| raised | by an attempt | by an oracle |
|---|---|---|
| `pytest.skip`, `xfail`, `importorskip`, `unittest.SkipTest` | `SkippedError` | `SkippedError` |
| `pytest.exit`, `KeyboardInterrupt`, quitting pdb | goes on up | goes on up |
| `pytest.fail` | a finding, and no retry follows | a finding |
| `AssertionError` | a failure of the task | a finding |
| all else, `SystemExit` included | a failure of the task | `OracleBrokenError` |

A failure of the task is a finding unless Airflow's next try is part of the design; see `outcome`, which decides that.
The function that makes a world must not skip either; whatever else it raises is passed on.
"""

from __future__ import annotations

import bdb
import sys
from enum import Enum, auto
from typing import Any
from unittest import SkipTest

from airflow_resume.testing.errors import SkippedError


class Meaning(Enum):
    """The meaning of an exception for the test that explores."""

    SKIP = auto()
    """The test would be reported as skipped, and its findings would be lost."""
    STOP = auto()
    """A person, or the test, wants to stop everything."""
    FAIL = auto()
    """The author of the test lets it fail."""
    ERROR = auto()
    """Anything else."""


def meaning(error: BaseException) -> Meaning:
    """The meaning of the exception, whoever raised it."""
    outcomes: Any = sys.modules.get("_pytest.outcomes")  # what was never loaded has raised nothing
    if isinstance(error, SkipTest) or (outcomes and isinstance(error, (outcomes.Skipped, outcomes.XFailed))):
        return Meaning.SKIP
    if isinstance(error, (KeyboardInterrupt, bdb.BdbQuit)) or (outcomes and isinstance(error, outcomes.Exit)):
        return Meaning.STOP
    if outcomes and isinstance(error, outcomes.Failed):
        return Meaning.FAIL
    return Meaning.ERROR


def refuse_skip(error: BaseException, who: str) -> None:
    """Refuse to skip the test while it explores.

    Args:
        error: the exception that was raised.
        who: what raised it, for the message.

    Raises:
        SkippedError: it skips the test.
    """
    if meaning(error) is Meaning.SKIP:
        raise SkippedError(
            f"{who} skips the test ({type(error).__name__}: {error}), and what was found before would be lost.\n"
            f"Skip before the exploration begins."
        ) from error
