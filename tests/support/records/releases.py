"""A released version of the packages, from the history of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[3]
RELEASES = {"0.1": "c9d7109", "0.1-a0002a6": "a0002a6"}
"""Commits by name; the second one is no release, but the last commit before positions in pages had a hash."""

LOADED_BY_AIRFLOW = (
    "toolkit/airflow_resume/provider.py",
    "mixins/airflow_resume_mixins/__init__.py",
    "mixins/airflow_resume_mixins/providers/__init__.py",
    "mixins/airflow_resume_mixins/providers/policy.py",
)


class NoHistoryError(LookupError):
    """The history is missing: this is a shallow clone, or not a repository."""


def unpack(release: str, into: Path) -> None:
    """The two packages of a release, or of any commit.

    Raises:
        NoHistoryError: there is no such commit.
    """
    commit = RELEASES.get(release, release)
    command = ["git", "-C", str(ROOT), "archive", commit, "toolkit", "mixins"]
    try:
        archived = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistoryError(f"{commit} is not in the history of {ROOT.name}") from error
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
        archive.extractall(into, filter="data")
    # Airflow loads the provider and the policy that are installed, from whichever packages are found first, and older
    # ones have none. It does so in the middle of its own import, so those packages may not load Airflow.
    for path in LOADED_BY_AIRFLOW:
        (into / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, into / path)


def run_recorded(packages: Path, what: str, folder: Path, module: str = "all_kinds") -> None:
    """Run `all_kinds`, or another module of this package, with the packages in this folder, and no others.

    Raises:
        subprocess.CalledProcessError: it failed; the error has its output.
    """
    roots = [str(packages / "toolkit"), str(packages / "mixins")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, str(ROOT)]), "RECORDED_BY": roots[0]}
    command = [sys.executable, "-m", f"{__package__}.{module}", what, str(folder)]
    subprocess.run(command, check=True, capture_output=True, env=environment, text=True)
