"""A released version of the packages, out of the history of the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RELEASES = {"0.1": "c9d7109", "0.1-a0002a6": "a0002a6"}
"""By name, the commit; the second is no release, and the last before positions within pages had a hash."""


class NoHistoryError(LookupError):
    """The history is not there: this is a shallow clone, or no repository."""


def unpack(release: str, into: Path) -> None:
    """The two packages of a release.

    Raises:
        NoHistoryError: where there is no such commit.
    """
    command = ["git", "-C", str(ROOT), "archive", RELEASES[release], "toolkit", "mixins"]
    try:
        archived = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistoryError(f"{RELEASES[release]} is not in the history of {ROOT.name}") from error
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
        archive.extractall(into, filter="data")


def run_recorded(packages: Path, what: str, folder: Path, script: str = "recorded.py") -> None:
    """Play `recorded` (or another script) with the packages in this folder, and no others.

    Raises:
        subprocess.CalledProcessError: with what it said.
    """
    roots = [str(packages / "toolkit"), str(packages / "mixins")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, str(HERE)]), "RECORDED_BY": roots[0]}
    command = [sys.executable, str(HERE / script), what, str(folder)]
    subprocess.run(command, check=True, capture_output=True, env=environment, text=True)
