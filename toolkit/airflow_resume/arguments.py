"""Arguments of a few words, whole numbers and lengths of time, checked where they are given."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any, get_args


def check_choice(name: str, value: object, literal: Any) -> None:
    """Refuse a value that is not one of those of a `Literal` type.

    Raises:
        ValueError: naming the choices there are.
    """
    choices = get_args(literal)
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not a choice.\nTake one of {', '.join(map(repr, choices))}.")


def check_choices(name: str, values: object, literal: Any) -> None:
    """Refuse what is not a collection of values of a `Literal` type.

    Raises:
        TypeError: not a collection; a text is none. ValueError: naming the choices there are.
    """
    if isinstance(values, str) or not isinstance(values, Collection):
        raise TypeError(f"{name}={values!r} must be a set, such as {name}={{{get_args(literal)[0]!r}}}")
    for value in values:
        check_choice(name, value, literal)


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Refuse what is not a whole number, or too small a one.

    Raises:
        TypeError: not an int. ValueError: less than `least`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a whole number")
    if least is not None and value < least:
        raise ValueError(f"{name}={value!r} must be at least {least}")


def check_duration(name: str, value: object) -> None:
    """Refuse what is not a length of time, before it is counted with.

    Raises:
        TypeError: not a timedelta. ValueError: a negative one.
    """
    if not isinstance(value, timedelta):
        raise TypeError(f"{name}={value!r} must be a timedelta, such as timedelta(seconds=5)")
    if value < timedelta(0):
        raise ValueError(f"{name}={value!r} is a length of time, and may not be negative")
