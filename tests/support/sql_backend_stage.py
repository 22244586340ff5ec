"""A real Airflow whose workers keep state in a database of its own, and runs of Dags there."""

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

SUPPORT = Path(__file__).parent
BACKEND = "AIRFLOW__WORKERS__STATE_STORE_BACKEND"
URL = "AIRFLOW__AIRFLOW_RESUME__BACKEND_URL"
INLINE_BYTES = "AIRFLOW__AIRFLOW_RESUME__BACKEND_INLINE_BYTES"
ON_DANGLING = "AIRFLOW__AIRFLOW_RESUME__BACKEND_ON_DANGLING"
CLEAR_ON_SUCCESS = "AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS"

EVERYTHING = {INLINE_BYTES: "0"}
"""Settings with which nothing stays in Airflow but references."""

SHARE = 8
"""Of the flights every eighth is loaded: nine pages instead of 68."""


@contextmanager
def airflow_with_backend(home: Path, *, progress: Callable[[str], None]) -> Iterator[Stage]:
    """Start it, with the example Dags twice and the Dags of `sql_backend_dags`, and play the scenarios in small.

    The example Dags whose names begin with `stored_` keep everything in the database, the others what is large.
    """
    flights, rows = _share_of_flights(home / "flights.csv.zip")
    env = {BACKEND: "airflow_resume.backends.SqlStoreBackend", URL: f"sqlite:///{home / 'state.db'}"}
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
        ) as stage,
    ):
        for name, value in {"ALL_FLIGHTS": rows, "HELD_PAGE": 5, "HELD_CHUNK": 2}.items():
            patch.setattr(scenarios, name, value)
        for dag_id in ("kept_values", "kept_watched"):  # the last of each file
            stage.airflow.wait_until_parsed(dag_id)
        yield stage


def _dags(folder: Path) -> Path:
    shutil.copytree(SUPPORT / "sql_backend_dags", folder)
    for shared in ("job_dags/job_operators.py", "job_dags/job_trigger.py", "loop_dags/diary.py"):
        shutil.copy(SUPPORT / shared, folder)
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
