"""Every module of the pack, as the setting that upgrades a deployment reads it."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import airflow_resume_mixins.providers
from airflow_resume_mixins.providers.index import INDEX, Entry
from airflow_resume_mixins.providers.twins import read_twins, twins_for

OURS = {"index", "policy", "provider_job", "reach", "twins", "upgrade"}
"""Modules without operators."""
PACK = sorted({module.name for module in pkgutil.iter_modules(airflow_resume_mixins.providers.__path__)} - OURS)


def test_the_pack_is_not_empty() -> None:
    assert {"amazon", "databricks", "ssh"} <= set(PACK)


@pytest.mark.parametrize("name", PACK)
def test_a_module_of_the_pack_can_be_named_in_the_setting(name: str) -> None:
    twins = read_twins((name,))
    assert twins.errors == []
    assert twins.by_operator


def test_the_index_has_every_module() -> None:
    assert list(INDEX) == PACK


@pytest.mark.parametrize("name", PACK)
def test_the_index_has_the_operators_of_a_module_with_their_package(name: str) -> None:
    twins = read_twins((name,)).by_operator
    entry = INDEX.get(name, Entry("nothing", ()))
    assert [*entry.operators] == sorted(twin.kind.__name__ for twin in twins.values())
    for operator, twin in twins.items():
        assert operator.__name__ == twin.kind.__name__
        assert operator.__module__.startswith(f"{entry.package}.")
    assert twins_for((name,), list(twins)).by_operator == twins


ONE_CLASS = """
import sys
{code}
print(*sorted(name for name in sys.modules if name.startswith("airflow_resume_mixins.providers.amazon.")))
"""


@pytest.mark.parametrize(
    "code",
    [
        "from airflow_resume_mixins.providers.amazon import AthenaOperator",
        """from airflow_resume_mixins.providers.twins import read_twins
assert len(read_twins(('amazon.AthenaOperator',)).by_operator) == 1""",
    ],
    ids=["import", "setting"],
)
def test_one_operator_of_amazon_imports_one_module_of_ours(code: str) -> None:
    pytest.importorskip("airflow.providers.amazon", reason="the providers have an environment of their own")
    done = subprocess.run(
        [sys.executable, "-c", ONE_CLASS.format(code=code)], check=True, capture_output=True, text=True
    )
    loaded = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert loaded == {"athena", "aws_job"}


def test_the_names_of_amazon_are_known_before_they_are_imported_and_are_those_of_its_modules() -> None:
    amazon = importlib.import_module("airflow_resume_mixins.providers.amazon")
    assert amazon.__all__ == sorted(amazon.__all__)
    assert set(amazon.__all__) <= set(dir(amazon))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        amazon.Nothing  # noqa: B018
    pytest.importorskip("airflow.providers.amazon", reason="the providers have an environment of their own")
    assert [getattr(amazon, name).__name__ for name in amazon.__all__] == amazon.__all__
