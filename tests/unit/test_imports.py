from __future__ import annotations

import subprocess
import sys

import airflow_resume

CODE = """
import sys
import airflow.sdk
before = set(sys.modules)
from airflow_resume import checkpoint, run_job, watermark
import airflow_resume_mixins
print(*sorted(set(sys.modules) - before))
"""


def test_importing_loads_nothing_heavy_that_the_sdk_does_not_load_itself() -> None:
    added = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout.split()
    foreign = [name for name in added if not name.startswith(("airflow_resume", "airflow.sdk."))]
    assert not {name.split(".")[0] for name in foreign} & {"sqlalchemy", "pytest", "_pytest", "httpx", "airflow_core"}
    assert len(foreign) < 5, foreign


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
