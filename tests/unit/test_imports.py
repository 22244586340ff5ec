from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_resume
import airflow_resume_mixins
from airflow_resume import compat

CODE = """
import sys
from airflow.sdk import DAG, Asset, BaseOperator, task  # every Dag file has some of them; Airflow 3.4 loads them late
before = set(sys.modules)
from airflow_resume import checkpoint, run_job, watermark
from airflow_resume_mixins import ResumableJobMixin, WatermarkMixin
print(*sorted(set(sys.modules) - before))
"""


def test_importing_loads_nothing_heavy_that_the_sdk_does_not_load_itself() -> None:
    added = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout.split()
    foreign = [name for name in added if not name.startswith(("airflow_resume", "airflow.sdk."))]
    assert not {name.split(".")[0] for name in foreign} & {"sqlalchemy", "pytest", "_pytest", "httpx", "airflow_core"}
    assert len(foreign) < 5, foreign


WATERMARKS = """
import sys
import airflow.sdk
import airflow_resume.watermarks as watermarks
from datetime import timedelta
mark = watermarks.watermark(airflow.sdk.Asset("a"), initial="2026-01-01T00:00:00Z", delay=timedelta(0))
print(*sorted(name for name in sys.modules if name.startswith("airflow_resume.")))
"""
LATER = {
    "sql.column_reader", "rows.columns", "sql.drivers", "rows.frame_watch", "rows.frames_of_arrow",
    "rows.frames_of_pandas", "rows.frames_of_polars", "sql.predicate", "sql.bound_values", "sql.text_forms",
    "sql.where", "windows.plan", "windows.slices", "windows.window_run", "marks.mark_record",
}  # fmt: skip
"""Of what few watermarks need: frames, and conditions of queries; and what only a task that runs needs."""


def test_a_dag_file_with_a_watermark_imports_only_what_every_watermark_needs() -> None:
    found = subprocess.run([sys.executable, "-c", WATERMARKS], check=True, capture_output=True, text=True)
    added = found.stdout.split()
    assert not {f"airflow_resume.watermarks.{name}" for name in LATER} & set(added)
    assert len(added) <= 51, added


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("from airflow_resume import checkpoint", 4),
        ("from airflow_resume import run_job, ResumePolicy", 8),
        ("from airflow_resume_mixins import ResumableJobMixin", 16),
        ("from airflow_resume.watermarks import Window", 46),
        ("from airflow_resume.loops import CursorToken, Page, Skip", 26),
    ],
)
def test_a_dag_file_that_names_something_loads_little_of_it(statement: str, most: int) -> None:
    """What a task needs when it runs is loaded then: a Dag file is read for each task, and many name more than one."""
    code = f"import sys\n{statement}\nprint(*sorted(name for name in sys.modules if name.startswith('airflow_resume')))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert len(found) <= most, found


def test_a_frame_is_known_without_the_library_that_it_is_not_of() -> None:
    code = """
import sys
from airflow_resume.watermarks.rows.frames import frame_of
assert frame_of(object()) is None
import pandas
print(type(frame_of(pandas.DataFrame())).__name__, "airflow_resume.watermarks.rows.frames_of_polars" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["PandasFrame", "False"]


def test_every_public_name_is_there_and_sorted_and_there_are_few() -> None:
    names = airflow_resume.__all__
    assert names == sorted(names)
    assert len(names) <= 15
    assert all(getattr(airflow_resume, name) is not None for name in names)
    assert set(names) <= set(dir(airflow_resume))


def test_every_name_for_testing_is_there_and_sorted_and_there_are_few() -> None:
    from airflow_resume import testing

    assert testing.__all__ == sorted(testing.__all__)
    assert len(testing.__all__) <= 15
    assert all(getattr(testing, name) is not None for name in testing.__all__)
    assert set(testing.__all__) <= set(dir(testing))


def test_every_error_explains_itself_without_a_message() -> None:
    from airflow_resume import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ResumeError)]
    assert len(kinds) > 20
    for kind in kinds:
        assert str(kind()).endswith((".", "+.")), kind
        assert str(kind("more")) == "more"


def imported_when_run(file: Path) -> Iterator[tuple[str, str]]:
    """Modules and names that a file imports from them, without those for type checkers."""
    tree = ast.parse(file.read_text())
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            yield from ((node.module, alias.name) for alias in node.names)


def test_names_that_are_elsewhere_in_older_airflows_are_imported_by_one_module_only() -> None:
    places = {(place, name) for name, found in compat._PLACES.items() for place in found}
    places |= {(place, name) for name, place in compat._ONLY_NEWER.items()}
    here = Path(str(airflow_resume.__file__)).parent
    mixins = Path(str(airflow_resume_mixins.__file__)).parent
    # On Airflow 3.3 and newer only: a backend of Airflow's own, and the fakes of its stores.
    newer = {here / "backends" / "hardened.py", here / "testing"}
    files = [file for folder in (here, mixins) for file in folder.rglob("*.py") if file.name != "compat.py"]
    wrong = {
        (str(file.relative_to(here.parent.parent)), *found)
        for file in files
        if not newer & {file, *file.parents}
        for found in imported_when_run(file)
        if found in places
    }
    assert wrong == set()
