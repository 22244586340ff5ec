"""Operators of providers that resume: one module for each provider, and the class from which they are made.

The name of a class is that of the provider's operator, so that only the import in a Dag file changes. A module imports
its provider, so import only what you use. The setting `[airflow_resume] upgrade` replaces the operators of a whole
deployment, without a change of a Dag file: see `upgrade`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_resume_mixins.providers.provider_job import ProviderJob

__all__ = ["ProviderJob"]


def __getattr__(name: str) -> object:  # Airflow imports this package in every process, see `policy`
    if name != "ProviderJob":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(f"{__name__}.provider_job").ProviderJob
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
