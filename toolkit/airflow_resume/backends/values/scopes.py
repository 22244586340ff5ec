"""Scopes: whose values they are, as a fixed-length identity and as columns that a person can read.

Databases disagree on when two texts are equal, and a key made of names is too long for an index. So a scope is
identified by a SHA-256 of its canonical JSON, and its names are stored only for people.

Airflow has the classes of scopes twice, for the worker and for the server, and the next version has more fields. So
only the attributes of a scope count, not its class.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from uuid import UUID

from airflow_resume.errors import InvalidKeyError
from airflow_resume.shown import short_repr
from airflow_resume.values import dumps

AnyScope: TypeAlias = Any
"""A `TaskScope` or an `AssetScope`, the worker's or the server's."""

MAX_KEY = 512
"""Characters of a key, as Airflow's own table has them."""

MAX_NAME = 16_000
"""Characters of a name in a scope, as MySQL's columns of text hold them."""

NO_REGION = str(UUID(int=0))
"""The region of every scope in Airflow 3.3, and of those outside a region in later ones."""


@dataclass(frozen=True, kw_only=True)
class ScopePlace:
    """Where the values of a scope are kept."""

    identity: str
    family: str
    """An identity that all instances of a mapped task share. For anything else it equals `identity`."""
    unmapped: str
    """The identity of the same task unmapped and outside all regions. For anything else it equals `identity`."""
    columns: Mapping[str, object]


def place_of(scope: AnyScope) -> ScopePlace:
    """The place of a scope.

    An asset is identified by its id where that is known (on the server), else by its name, else by its URI. So a scope
    with a name and a URI is the same as the scope with that name alone.

    Raises:
        TypeError: it is no scope.
        InvalidKeyError: no database could keep a name or number in it.
    """
    if hasattr(scope, "task_id"):
        region = str(getattr(scope, "region_id", None) or NO_REGION)
        return _task(scope.dag_id, scope.run_id, scope.task_id, scope.map_index, region)
    if hasattr(scope, "asset_id"):
        return _asset(scope.asset_id, scope.name, scope.uri)
    raise TypeError(f"{scope!r} is neither the scope of a task nor that of an asset")


COLUMNS: tuple[str, ...] = (
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "region_id",
    "asset_id",
    "asset_name",
    "asset_uri",
)
"""The columns that describe a scope; NULL where it has no such attribute. The tables are made with them."""


@lru_cache(maxsize=1024)
def _task(dag_id: str, run_id: str, task_id: str, map_index: int, region_id: str) -> ScopePlace:
    columns = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index, "region_id": region_id}
    described = _described(columns)  # first, as what cannot be kept needs no digest
    return ScopePlace(
        identity=digest(["task", dag_id, run_id, task_id, map_index, region_id]),
        family=digest(["tasks", dag_id, run_id, task_id]),
        unmapped=digest(["task", dag_id, run_id, task_id, -1, NO_REGION]),
        columns=described,
    )


@lru_cache(maxsize=1024)
def _asset(asset_id: int | None, name: str | None, uri: str | None) -> ScopePlace:
    known = {"id": asset_id, "name": name, "uri": uri}
    described = _described({"asset_id": asset_id, "asset_name": name, "asset_uri": uri})
    field, value = next(((field, value) for field, value in known.items() if value is not None), (None, None))
    if field is None:
        raise InvalidKeyError("This scope of an asset has no id, no name and no URI.", "Give it one of them.")
    identity = digest(["asset", field, value])
    return ScopePlace(identity=identity, family=identity, unmapped=identity, columns=described)


def _described(known: Mapping[str, object]) -> Mapping[str, object]:
    for name, value in known.items():
        _check_part(name, value)
    return {name: known.get(name) for name in COLUMNS}


def _check_part(name: str, value: object) -> None:
    """Refuse a part that no database can keep. It is checked here, because each driver raises another error for it."""
    remedy = f"Use up to {MAX_NAME:,} characters of text that can be encoded, and no NUL."
    match value:
        case None:
            return
        case str() if name not in _NUMBERS:
            is_kept = len(value) <= MAX_NAME and "\x00" not in value and _can_be_encoded(value)
        case int() if name in _NUMBERS and not isinstance(value, bool):
            least, most = _NUMBERS[name]
            is_kept, remedy = least <= value <= most, f"Use a number from {least} to {most}."
        case _:
            is_kept = False
    if not is_kept:
        raise InvalidKeyError(
            f"{name}={short_repr(value)} cannot stand in a scope.",
            remedy,
            key=value if isinstance(value, str) else None,
        )


_NUMBERS = {"map_index": (-1, 2**31 - 1), "asset_id": (0, 2**63 - 1)}


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # it has half a surrogate pair in it
        return False
    return True


def digest(parts: list[object]) -> str:
    """A SHA-256 of the parts: no two lists have the same."""
    return hashlib.sha256(dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()


def key_digest(key: str) -> str:
    """The identity of a key.

    Raises:
        InvalidKeyError: it is not 1 to 512 characters of text, or has a NUL in it, or half a surrogate pair.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or "\x00" in key:
        raise InvalidKeyError(
            f"{short_repr(key)} cannot be a key.",
            f"Use 1 to {MAX_KEY} characters, and no NUL.",
            key=key if isinstance(key, str) else None,
        )
    return _digest_of_key(key)


@lru_cache(maxsize=1024)
def _digest_of_key(key: str) -> str:
    try:
        return hashlib.sha256(key.encode()).hexdigest()
    except UnicodeEncodeError:
        raise InvalidKeyError(
            f"{short_repr(key)} cannot be a key: it has half a surrogate pair in it", key=key
        ) from None
