"""The kinds of faults by name, the variants of each, and where they can happen."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from airflow_resume.testing.errors import InvalidKindError
from airflow_resume.testing.points import CRASH_KINDS, Point

MakeError: TypeAlias = Callable[[], BaseException]
ErrorSource: TypeAlias = "MakeError | BaseException"
"""A class of errors that needs no arguments, a function that makes one, or one."""
Errors: TypeAlias = "Sequence[ErrorSource] | Mapping[str, ErrorSource]"

ERRORS: Mapping[str, ErrorSource] = MappingProxyType(
    {
        "KeyError": partial(KeyError, "id"),
        "JSONDecodeError": partial(json.JSONDecodeError, "Expecting value", "<html>", 0),
        "SSLEOFError": partial(ssl.SSLEOFError, ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol"),
        "OSError": partial(OSError, "the connection broke"),
        "AirflowException": partial(AirflowException, "the answer could not be used"),
    }
)
"""What `"raises_after"` raises by default: errors that come after a request was carried out."""

TO_START, TO_LAST_WRITE = "restored to_start", "restored to_last_write"

_KINDS_WITH_VARIANTS = {"raises_after", "wrong_once", "restored"}


def read_errors(errors: Errors) -> dict[str, MakeError]:
    """The makers of errors, by name; that of a class, function or error is its own or that of its class.

    Raises:
        InvalidKindError: a name is there twice or cannot be written in a way, or one is no error that a task ends with.
    """
    named = list(errors.items()) if isinstance(errors, Mapping) else [(_name(source), source) for source in errors]
    read = {name: _maker(name, source) for name, source in named}
    for name, make in read.items():
        _check_name(name)
        if not isinstance(made := make(), (Exception, AirflowTaskTimeout)):
            raise InvalidKindError(f"{name} makes {made!r}.\nA task ends with an Exception or an AirflowTaskTimeout.")
    if len(read) < len(named):
        raise InvalidKindError(
            f"Two errors have one name: {', '.join(name for name, _ in named)}.\nPass a dict with names of your own."
        )
    return read


def _name(source: ErrorSource) -> str:
    return str(getattr(source, "__name__", type(source).__name__))


def _maker(name: str, source: ErrorSource) -> MakeError:
    if isinstance(source, BaseException):
        return partial(_as_new, source)
    if not callable(source):
        raise InvalidKindError(f"{name} is {source!r}.\nPass classes of errors, functions that make one, or errors.")
    return source


def _as_new(error: BaseException) -> BaseException:
    """Without what it remembers of being raised before."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _check_name(name: str) -> None:
    if not name or set(name) & {",", ":"} or name != name.strip():
        raise InvalidKindError(f"{name!r} cannot be a part of a way.\nLeave commas, colons and outer spaces out of it.")


def check_lies(what: str, lies: Mapping[str, object]) -> None:
    """The names of lies can be parts of a way.

    Raises:
        InvalidKindError: they cannot, or there are none.
    """
    if not lies:
        raise InvalidKindError(f"The answer {what!r} has no lies.\nName at least one, or ask without world.answer.")
    for name in lies:
        _check_name(name)


def read_kinds(kinds: Sequence[str], errors: Mapping[str, MakeError]) -> tuple[str, ...]:
    """The kinds, with the variants of those whose variants are the same at every point.

    Raises:
        InvalidKindError: one is no kind.
    """
    if isinstance(kinds, str):
        raise InvalidKindError(f"kinds={kinds!r} is one text.\nPass a list: kinds=[{kinds!r}].")
    return tuple(dict.fromkeys(each for kind in kinds for each in _variants(kind, errors)))


def _variants(kind: str, errors: Mapping[str, MakeError]) -> Iterator[str]:
    match kind:
        case "raises_after":
            yield from (f"raises_after {name}" for name in errors)
        case "restored":
            yield from (TO_START, TO_LAST_WRITE)
        case "wrong_once":
            yield kind
        case _:
            yield read_kind(kind, errors)


def read_kind(text: str, errors: Mapping[str, MakeError]) -> str:
    """The kind with its one variant, if it has variants.

    Raises:
        InvalidKindError: it is none.
    """
    name, _, variant = text.partition(" ")
    if name not in CRASH_KINDS:
        raise InvalidKindError(f"{text!r} is no kind of fault.\nKinds are {', '.join(CRASH_KINDS)}.")
    if bool(variant) is not (name in _KINDS_WITH_VARIANTS):
        raise InvalidKindError(f"{text!r} {'needs a' if not variant else 'has no'} variant.")
    if name == "raises_after" and variant not in errors:
        raise InvalidKindError(f"{text!r} names no error.\nErrors are {', '.join(errors)}; others go into errors=.")
    if name == "restored" and text not in {TO_START, TO_LAST_WRITE}:
        raise InvalidKindError(f"{text!r} is no way to restore.\nThere are {TO_START!r} and {TO_LAST_WRITE!r}.")
    return text


def faults_at(point: Point, kinds: Sequence[str]) -> Iterator[str]:
    """Which of the kinds can happen at the point; every lie of an answer is one."""
    for kind in kinds:
        if kind == "wrong_once":
            yield from (f"wrong_once {lie}" for lie in point.lies)
        elif point.allows(kind):
            yield kind


def is_of(fault: str, kind: str) -> bool:
    """Whether this is the kind or a variant of it."""
    return fault == kind or fault.startswith(f"{kind} ")
