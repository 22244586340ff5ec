"""Checks of arguments. A message names the argument, shows what was given, and says what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

from airflow_resume.shown import short_repr


def check_type(name: str, value: object, kinds: type | tuple[type, ...], needed: str) -> None:
    """Refuse what is of another type.

    Args:
        name: of the argument.
        value: that was given.
        kinds: that it may be of.
        needed: these in words, such as "a Skip, such as Skip(on=(ValueError,))".

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, kinds):
        raise TypeError(f"{name}={short_repr(value)} must be {needed}")


def check_flag(name: str, value: object) -> None:
    """Refuse anything but True and False. `"no"` would count as True.

    Raises:
        TypeError: neither.
    """
    check_type(name, value, bool, "True or False")


def check_function(name: str, value: object, needed: str = "a function") -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: it cannot.
    """
    if not callable(value):
        raise TypeError(f"{name}={short_repr(value)} must be {needed}")


def check_context(context: object) -> None:
    """Refuse what is no context of a task.

    Raises:
        TypeError: its type is named; its text may have secrets in it.
    """
    if not isinstance(context, Mapping):
        raise TypeError(f"context= was given {kind_of(context)}, and must be the context of a task, a dict")


def check_store(store: object, methods: Collection[str] = ("get", "set", "delete")) -> None:
    """Refuse what is no store.

    Raises:
        TypeError: its type is named; its text may have a URL with a password in it.
    """
    if isinstance(store, type) or not all(callable(getattr(store, name, None)) for name in methods):
        raise TypeError(
            f"store= was given {kind_of(store)}, which is no store.\nPass an object with the methods"
            f" {', '.join(methods)}."
        )


def kind_of(value: object) -> str:
    """The type of a value, for a message that may not show the value."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"a value of the type {type(value).__name__}"


def check_choice(name: str, value: object, literal: Any) -> None:
    """Refuse a value that a `Literal` type does not have.

    Raises:
        ValueError: it lists the choices.
    """
    choices = get_args(literal)
    if value not in choices:
        raise ValueError(f"{name}={short_repr(value)} is not a choice.\nTake one of {', '.join(map(repr, choices))}.")


def check_choices(name: str, values: object, literal: Any) -> None:
    """Refuse what is not a collection of values of a `Literal` type.

    Raises:
        TypeError: not a collection; a str does not count. ValueError: it lists the choices.
    """
    if isinstance(values, str) or not isinstance(values, Collection):
        raise TypeError(f"{name}={short_repr(values)} must be a set, such as {name}={{{get_args(literal)[0]!r}}}")
    for value in values:
        check_choice(name, value, literal)


def check_whole(name: str, value: object, *, least: int | None = None) -> None:
    """Refuse anything but a whole number of at least `least`.

    Raises:
        TypeError: not an int. ValueError: less than `least`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={short_repr(value)} must be a whole number")
    if least is not None and value < least:
        raise ValueError(f"{name}={short_repr(value)} must be at least {least}")


def check_number(name: str, value: object, *, least: float) -> None:
    """Refuse anything but a number of at least `least`.

    Raises:
        TypeError: not a number. ValueError: less than `least`, infinite, or not a number at all (NaN).
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name}={short_repr(value)} must be a number")
    if not least <= value < float("inf"):
        raise ValueError(f"{name}={short_repr(value)} must be a number of at least {least:g}")


def check_duration(name: str, value: object) -> None:
    """Refuse anything but a length of time.

    Raises:
        TypeError: not a timedelta. ValueError: a negative one.
    """
    if not isinstance(value, timedelta):
        raise TypeError(f"{name}={short_repr(value)} must be a timedelta, such as timedelta(seconds=5)")
    if value < timedelta(0):
        raise ValueError(f"{name}={short_repr(value)} is a length of time, and may not be negative")


def check_past(name: str, value: object, now: datetime) -> None:
    """Refuse anything but a time in the past with a zone.

    Raises:
        TypeError: not a datetime. ValueError: without a zone, or after `now`.
    """
    if not isinstance(value, datetime):
        raise TypeError(f"{name}={short_repr(value)} must be a datetime, such as datetime.now(timezone.utc)")
    if value.utcoffset() is None:
        raise ValueError(f"{name}={short_repr(value)} has no zone; it must be like datetime.now(timezone.utc)")
    if value > now:
        raise ValueError(f"{name}={short_repr(value)} has not come yet")


def check_seconds(name: str, value: object, *, most: float) -> None:
    """Refuse anything but a number of seconds up to `most`.

    Raises:
        TypeError: not a number. ValueError: negative, more than `most`, or not a number at all (NaN).
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name}={short_repr(value)} must be a number of seconds")
    if not 0 <= value <= most:
        raise ValueError(f"{name}={short_repr(value)} must be from 0 to {most:g} seconds")
