"""References: the texts that Airflow keeps in place of values that are kept in our database.

A value below the threshold is its own reference, as plain JSON, so that Airflow's UI shows it. Any other reference is

    airflow-resume:1:<id of the database>:<identity of the scope>:<key, percent-quoted>

which is not JSON, so the two cannot be mixed up. A scope and a key always have the same reference, whatever the value.
So if a value is replaced and Airflow never stores the answer, the reference that Airflow has still leads to the new
value.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from airflow_resume.attempt import how_to_delete_a_key
from airflow_resume.backends.values.scopes import key_digest
from airflow_resume.backends.values.texts import value_of
from airflow_resume.errors import InvalidValueError, StateReferenceError
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

PREFIX = "airflow-resume:"
_VERSION = 1
_SHAPE = re.compile(rf"{PREFIX}{_VERSION}:([0-9a-f]{{32}}):([0-9a-f]{{64}}):([A-Za-z0-9_.~%-]+)")
_ANY_VERSION = re.compile(rf"{PREFIX}([1-9][0-9]{{0,5}}):.*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Where a value is."""

    store_id: str
    scope_hash: str
    key: str

    def __str__(self) -> str:
        return f"{PREFIX}{_VERSION}:{self.store_id}:{self.scope_hash}:{quote(self.key, safe='')}"


def read(stored: object) -> Reference | JsonValue:
    """The reference that Airflow has, or the value itself.

    Args:
        stored: anything. Airflow has other backends, people type values into its UI, and some values are not a str.

    Raises:
        StateReferenceError: it is neither a reference nor a value.
    """
    if not isinstance(stored, str):
        raise _strange(stored, "it is no text")
    if stored.startswith(PREFIX):
        return _parse(stored)
    try:
        return value_of(stored)
    except InvalidValueError as error:
        raise _strange(stored, error.message) from error


def _parse(stored: str) -> Reference:
    version = _ANY_VERSION.fullmatch(stored)
    if version and int(version[1]) > _VERSION:
        raise StateReferenceError(
            f"{short_repr(stored)} is not a reference that this version of airflow-resume can follow: it has version"
            f" {version[1]}, and this one knows {_VERSION}.",
            "Upgrade airflow-resume on this worker.",
        )
    shape = _SHAPE.fullmatch(stored)
    key = None
    if shape is not None:
        with suppress(ValueError):  # it is not UTF-8, or not a key
            unquoted = unquote(shape[3], errors="strict")
            key_digest(unquoted)
            key = unquoted
    if shape is None or key is None:
        raise StateReferenceError(
            f"{short_repr(stored)} is not a reference that airflow-resume has written: it was cut off, or changed by"
            " hand.",
            f"To begin anew, {how_to_delete_a_key()}.",
        )
    return Reference(store_id=shape[1], scope_hash=shape[2], key=key)


def _strange(stored: object, why: str) -> StateReferenceError:
    return StateReferenceError(
        f"Airflow has {short_repr(stored)} where a value or a reference of airflow-resume should be: {why}. It was"
        " written by another backend, or by hand.",
        "Set [workers] state_store_backend as it is on the worker that wrote it; or, to begin anew,"
        f" {how_to_delete_a_key()}.",
    )
