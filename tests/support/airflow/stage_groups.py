"""Which files of `tests/airflow` use the Airflow that several of them share."""

from __future__ import annotations

from pathlib import Path

SHARED = "shared_stage"
"""The fixture that starts it."""


def stage_of(file: Path) -> str:
    """The name of the group of a file: that of the shared Airflow if the file uses it, else its own.

    The process that distributes the tests has collected none, so it knows no fixtures but those it reads in the file.
    """
    return SHARED if file.is_file() and SHARED in file.read_text() else str(file)
