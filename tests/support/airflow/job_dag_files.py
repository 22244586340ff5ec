"""Dag files of the jobs that tests can edit, and a flights file that is small enough to cost nothing."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

JOB_DAGS = Path(__file__).with_name("dags") / "jobs"
AIRFLOWS = "from airflow.sdk import DAG, BaseOperator, ResumableJobMixin\n"
OURS = "from airflow.sdk import DAG, BaseOperator\nfrom airflow_resume_mixins import ResumableJobMixin\n"


def copy_of_job_dags(folder: Path) -> Path:
    """Copy the Dags, two of them for editing: one starts with Airflow's mixin, the other with ours."""
    shutil.copytree(JOB_DAGS, folder)
    (folder / "edited.py").rename(folder / "upgraded.py")
    shutil.copy(folder / "upgraded.py", folder / "downgraded.py")
    upgrade(folder / "downgraded.py")
    return folder


def upgrade(file: Path) -> None:
    _replace(file, AIRFLOWS, OURS)


def downgrade(file: Path) -> None:
    _replace(file, OURS, AIRFLOWS)


def edit_retries(file: Path) -> None:
    """Lower the retries by one."""
    _replace(file, "RETRIES = 3\n", "RETRIES = 2\n")


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    draft = file.with_suffix(".draft")
    draft.write_text(text.replace(old, new))
    draft.replace(file)


def few_flights(folder: Path) -> Path:
    """A file of flights with one in it."""
    path = folder / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", f"{','.join(ROW)}\n{','.join(ROW.values())}\n")
    return path


ROW = {
    "time_hour": "2013-01-01T10:00:00Z",
    "minute": "15",
    "carrier": "UA",
    "flight": "1545",
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "dep_delay": "2",
    "arr_delay": "11",
    "distance": "1400",
}
