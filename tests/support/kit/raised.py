"""Which of the cases of an error class was raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

from airflow_resume.errors import ResumeError

E = TypeVar("E", bound=ResumeError)


def having(**fields: Any) -> Callable[[ResumeError], bool]:
    """The `check=` of `pytest.raises` that the error has these fields."""
    return lambda error: is_one(error, ResumeError, **fields)


def is_one(error: object, kind: type[E], **fields: Any) -> TypeGuard[E]:
    """Whether it is an error of this kind with these fields."""
    return isinstance(error, kind) and all(error.fields[name] == value for name, value in fields.items())
