"""The console command `airflow-resume`: what an operator does with a database of state, and a test of anyone's store.

A module for each subcommand; what they need is imported when one runs, so that `--help` is quick and a missing
package is named only to those who need it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from airflow_resume.command import cleanup, conformance, doctor, migrate
from airflow_resume.errors import ResumeError

__all__ = ["main"]

FAILED = 1
"""The exit code when something went wrong. That of a wrong usage is 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code. Errors of ours are one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()  # here, where a reader that has gone is noticed
    except ResumeError as error:
        print("airflow-resume:", " ".join(str(error).split()), file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # Whoever read has seen enough; what is still to be flushed at the end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="airflow-resume", description="State in a database of your own: look after it, and test a store."
    )
    subcommands = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)
    for subcommand in (migrate, cleanup, conformance, doctor):
        subcommand.add_to(subcommands)
    return parser
