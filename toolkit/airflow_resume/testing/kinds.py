"""The kinds of faults by name, their variants, and where they can happen."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from airflow_resume.compat import AirflowException, AirflowTaskTimeout
from airflow_resume.shown import short_repr
from airflow_resume.testing.errors import InvalidKindError
from airflow_resume.testing.points import CRASH_KINDS, Point

MakeError: TypeAlias = Callable[[], BaseException]
ErrorSource: TypeAlias = "MakeError | BaseException"
"""A class of errors that needs no arguments, a function that makes an error, or an error."""
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
"""What `"raises_after"` raises by default: errors that follow a request that was carried out."""

TO_START, TO_LAST_WRITE = "restored to_start", "restored to_last_write"

_EXAMPLES = {"raises_after": "raises_after KeyError", "wrong_once": "wrong_once gone", "restored": TO_START}
"""An example for each kind that has variants."""


def read_errors(errors: Errors) -> dict[str, MakeError]:
    """Functions that make the errors, by name. A class or function is called by its own name, an error by its class.

    Raises:
        InvalidKindError: a name is there twice or cannot be part of a way, or something is no error that ends a task.
    """
    if isinstance(errors, str) or not isinstance(errors, Collection):
        raise InvalidKindError(f"errors={short_repr(errors)} is no list.\nPass a list of them: errors=[OSError].")
    if isinstance(errors, Mapping):
        named = list(errors.items())
    else:
        named = [(str(getattr(source, "__name__", type(source).__name__)), source) for source in errors]
    read = {name: _maker(name, source) for name, source in named}
    for name, make in read.items():
        _check_name(name)
        if not isinstance(made := make(), (Exception, AirflowTaskTimeout)):
            raise InvalidKindError(f"{name} makes {made!r}.\nA task ends with an Exception or an AirflowTaskTimeout.")
    if len(read) < len(named):
        raise InvalidKindError(
            f"Two errors have the same name: {', '.join(name for name, _ in named)}.\n"
            f"Pass a dict with names of your own."
        )
    return read


def _maker(name: str, source: ErrorSource) -> MakeError:
    if isinstance(source, BaseException):

        def without_history() -> BaseException:
            """The error, without what it remembers of being raised before."""
            source.__cause__ = source.__context__ = None
            return source.with_traceback(None)

        return without_history
    if not callable(source):
        raise InvalidKindError(f"{name} is {source!r}.\nPass classes of errors, functions that make one, or errors.")
    return source


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name or set(name) & {",", ":"} or name != name.strip():
        raise InvalidKindError(
            f"{name!r} cannot be written in only=.\nChoose a name without commas, colons, or spaces around it."
        )


def check_lies(what: str, lies: Mapping[str, object]) -> None:
    """Check that the names of the lies can be parts of a way.

    Raises:
        InvalidKindError: one cannot, or there are none.
    """
    if not lies:
        raise InvalidKindError(f"The answer {what!r} has no lies.\nName at least one, or ask without world.answer.")
    for name in lies:
        _check_name(name)


def check_kinds_are_listed(kinds: object) -> None:
    """Refuse what is not a list of texts.

    Raises:
        InvalidKindError: it is not.
    """
    if isinstance(kinds, str):
        raise InvalidKindError(f"kinds={kinds!r} is a str.\nPass a list: kinds=[{kinds!r}].")
    if not (isinstance(kinds, Collection) and all(isinstance(kind, str) for kind in kinds)):
        raise InvalidKindError(f"kinds={short_repr(kinds)} is no list of texts.\nPass one, such as kinds=['crash'].")


def read_kinds(kinds: Sequence[str], errors: Mapping[str, MakeError]) -> tuple[str, ...]:
    """The kinds, with all variants of those whose variants are the same at every point.

    Raises:
        InvalidKindError: something is not a kind.
    """
    check_kinds_are_listed(kinds)
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
    """Check a kind, with its variant if it has variants.

    Raises:
        InvalidKindError: it is not a kind, or its variant is missing or unknown.
    """
    name, _, variant = text.partition(" ")
    if name not in CRASH_KINDS:
        raise InvalidKindError(f"{text!r} is not a kind of fault.\nKinds are {', '.join(CRASH_KINDS)}.")
    if bool(variant) is not (name in _EXAMPLES):
        if variant:
            raise InvalidKindError(f"{text!r} has a variant, and {name!r} comes without one.\nWrite {name!r}.")
        raise InvalidKindError(f"{text!r} needs a variant.\nWrite {_EXAMPLES[name]!r}, for example.")
    if name == "raises_after" and variant not in errors:
        raise InvalidKindError(f"{text!r} names no error.\nErrors are {', '.join(errors)}; others go into errors=.")
    if name == "restored" and text not in {TO_START, TO_LAST_WRITE}:
        raise InvalidKindError(f"{text!r} is not a way to restore.\nWrite {TO_START!r} or {TO_LAST_WRITE!r}.")
    return text


def faults_at(point: Point, kinds: Sequence[str]) -> Iterator[str]:
    """Which of the kinds can happen at the point; each lie that an answer allows is one."""
    for kind in kinds:
        if kind == "wrong_once":
            yield from (f"wrong_once {lie}" for lie in point.lies)
        elif point.allows(kind):
            yield kind


def is_of(fault: str, kind: str) -> bool:
    """Whether the fault is of this kind, or a variant of it."""
    return fault == kind or fault.startswith(f"{kind} ")
