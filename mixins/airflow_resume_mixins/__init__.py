"""Operator mixins: thin shells over `airflow_resume`.

The names are loaded when they are first used, as Airflow imports `airflow_resume_mixins.providers.policy` in every
process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_resume_mixins.resumable_job import ResumableJobMixin
    from airflow_resume_mixins.watermark import WatermarkMixin

__all__ = ["ResumableJobMixin", "WatermarkMixin"]

_HOMES = {"ResumableJobMixin": "resumable_job", "WatermarkMixin": "watermark"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
