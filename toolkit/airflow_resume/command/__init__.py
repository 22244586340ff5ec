"""The console command `airflow-resume`: what resumes in an Airflow, databases of state, tests of stores.

`arguments` has the arguments. The module of a subcommand is imported when it runs, so that `--help` and `--version`
take a fraction of a second, and a missing package is named only to those who need it. Airflow alone takes two seconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from airflow_resume.command.arguments import parser_for, without_urls

__all__ = ["main"]

FAILED = 1
"""The exit code when something went wrong. The one of a wrong usage is 2."""
INTERRUPTED = 130
"""... when somebody pressed Ctrl-C, as shells have it."""
REFUSED = 4
"""... when a change of a record was refused."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code. Errors of ours are one line on stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parser_for(given).parse_args(given)
    module, _, function = options.run.partition(":")
    try:
        code: int = getattr(import_module(f"{__name__}.{module}"), function)(options)
        sys.stdout.flush()  # here, where a reader that has gone is noticed
    except BrokenPipeError:
        # The reader has closed the pipe, so what is flushed at the end must go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        from airflow_resume.errors import ChangeRefusedError, ResumeError  # imports Airflow

        if not isinstance(error, ResumeError):
            raise
        print("airflow-resume:", without_urls(" ".join(str(error).split()), given), file=sys.stderr)
        return REFUSED if isinstance(error, ChangeRefusedError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
