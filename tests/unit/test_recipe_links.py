"""The links of a ready-made operator at its task in Airflow's UI are those of the provider's own operator."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from airflow_resume_mixins.providers.index import INDEX


@pytest.mark.parametrize("name", INDEX)
def test_a_ready_made_operator_keeps_the_links_of_its_operator(name: str) -> None:
    pytest.importorskip(INDEX[name].package)
    module = import_module(f"airflow_resume_mixins.providers.{name}")
    for operator in INDEX[name].operators:
        ours = getattr(module, operator)
        upstream = next(base for base in ours.__mro__ if base.__module__.startswith(INDEX[name].package))
        links, own = (inspect.getattr_static(each, "operator_extra_links") for each in (ours, upstream))
        assert links is own, operator
