"""What is missing is named with the extra to install, and who does not use a database loads none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.errors import MissingDriverError

# Airflow's server imports SQLAlchemy where it is installed, as it is beside these tests: it comes before.
CODE = """
import sys
import airflow_resume.errors, airflow.sdk.state
before = set(sys.modules)
sqlalchemy = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("sqlalchemy")}
sys.modules["sqlalchemy"] = None
try:
    import airflow_resume.backends
except ImportError as error:
    print(type(error).__name__, error, sep=": ")
sys.modules.update(sqlalchemy)
import airflow_resume.backends
print(*sorted(set(sys.modules) - before))
"""


@pytest.fixture(scope="module")
def printed() -> list[str]:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_without_sqlalchemy_the_extra_to_install_is_named(printed: list[str]) -> None:
    assert printed[:2] == [
        "MissingDriverError: SQLAlchemy is not installed.",
        "Install it: pip install 'airflow-resume[sql]'",
    ]


def test_the_backend_loads_nothing_of_airflows_server(printed: list[str]) -> None:
    ours = ("airflow_resume", "airflow.sdk")
    assert [name for name in printed[2].split() if name.startswith("airflow") and not name.startswith(ours)] == []


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("postgresql://host/database", "psycopg", "postgresql"),
        ("mysql://host/database", "pymysql", "mysql"),
        ("mariadb://host/database", "pymysql", "mysql"),
    ],
)
def test_without_its_driver_the_extra_of_a_database_is_named(
    monkeypatch: pytest.MonkeyPatch, url: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDriverError, match=rf"airflow-resume\[{extra}\]"):
        _ = SqlStoreBackend(url).store_id
