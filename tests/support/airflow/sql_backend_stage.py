"""A real Airflow whose workers keep state in a separate database, and runs of Dags on it."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import scenarios
from flights_source import open_csv, published_csv
from stage import EXAMPLES, Stage

DAGS = Path(__file__).with_name("dags")
BACKEND = "AIRFLOW__WORKERS__STATE_STORE_BACKEND"
URL = "AIRFLOW__AIRFLOW_RESUME__BACKEND_URL"
CONN_ID = "AIRFLOW__AIRFLOW_RESUME__BACKEND_CONN_ID"
EXPOSE_CONFIG = "AIRFLOW__API__EXPOSE_CONFIG"
INLINE_BYTES = "AIRFLOW__AIRFLOW_RESUME__BACKEND_INLINE_BYTES"
ON_DANGLING = "AIRFLOW__AIRFLOW_RESUME__BACKEND_ON_DANGLING"
CLEAR_ON_SUCCESS = "AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS"

EVERYTHING = {INLINE_BYTES: "0"}
"""Settings with which Airflow's own database has only references."""

SHARE = 8
"""Only every eighth flight is loaded: nine pages instead of 68."""


@contextmanager
def airflow_with_backend(
    home: Path, *, progress: Callable[[str], None], heartbeat_timeout: int | None = None
) -> Iterator[Stage]:
    """Start it with two copies of the example Dags and the Dags of `dags/sql_backend`, and with less data.

    The example Dags whose names begin with `stored_` keep all values in the database, the others only large ones.
    """
    flights, rows = _share_of_flights(home / "flights.csv.zip")
    url = f"sqlite:///{home / 'state.db'}"
    env = {BACKEND: "airflow_resume.backends.SqlStoreBackend", URL: url, EXPOSE_CONFIG: "True"}
    with (
        pytest.MonkeyPatch.context() as patch,
        Stage(
            home,
            dags=_dags(home / "dags"),
            flights=flights,
            job_seconds=15,
            triggerer=True,
            env=env,
            progress=progress,
            heartbeat_timeout=heartbeat_timeout,
        ) as stage,
    ):
        for name, value in {"ALL_FLIGHTS": rows, "HELD_PAGE": 5, "HELD_CHUNK": 2}.items():
            patch.setattr(scenarios, name, value)
        for dag_id in ("kept_values", "kept_watched"):  # the last of each file
            stage.airflow.wait_until_parsed(dag_id)
        yield stage


def _dags(folder: Path) -> Path:
    shutil.copytree(DAGS / "sql_backend", folder)
    for shared in ("jobs/job_operators.py", "jobs/job_trigger.py", "loops/diary.py"):
        shutil.copy(DAGS / shared, folder)
    for example in (EXAMPLES / "dags" / "resuming").glob("*.py"):
        shutil.copy(example, folder)
        (folder / f"stored_{example.name}").write_text(_storing(example.read_text(), example.stem))
    return folder


def _storing(text: str, dag_id: str) -> str:
    """The same Dag by another name, with an asset of its own and other settings."""
    first = "from __future__ import annotations\n"
    settings = f"\nimport os\n\nos.environ.update({EVERYTHING!r})\n"
    assert text.count(f'"{dag_id}"') == 2
    assert first in text
    renamed = re.sub(rf'"({dag_id}|flights)"', r'"stored_\1"', text)
    return renamed.replace(first, first + settings)


def _share_of_flights(path: Path) -> tuple[Path, int]:
    """A file with a share of the published flights, and how many those are."""
    with open_csv(published_csv()) as (lines, _):
        header, *rows = lines
    kept = rows[::SHARE]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("flights.csv", "".join([header, *kept]))
    return path, len(kept)
