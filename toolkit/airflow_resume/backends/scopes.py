"""Scopes: whose values they are, as a fixed-length identity and as columns that a person can read.

Databases disagree on when two texts are equal, and a key made of names is too long for an index. So a scope is
identified by a SHA-256 of its canonical JSON, and its names stand beside that only to be read.

Airflow has the classes of scopes twice, for the worker and for the server, and the next one has more fields. So a
scope is asked for its attributes by name and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from uuid import UUID

from airflow_resume.errors import InvalidKeyError
from airflow_resume.values import dumps

AnyScope: TypeAlias = Any
"""A `TaskScope` or an `AssetScope`, the worker's or the server's."""

MAX_KEY = 512
"""Characters of a key, as Airflow's own table has them."""

NO_REGION = str(UUID(int=0))
"""The region of every scope in Airflow 3.3, and of those outside a region in later ones."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the values of a scope are kept."""

    identity: str
    family: str
    """What the instances of a mapped task have in common; the identity for anything else."""
    columns: Mapping[str, object]


def place_of(scope: AnyScope) -> Place:
    """The place of a scope.

    An asset is identified by its id where that is known (on the server), else by its name, else by its URI. A scope
    with a name and a URI is thus the same as the one with that name alone.

    Raises:
        TypeError: it is no scope.
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
"""What a scope is described by, where it has them."""


@lru_cache(maxsize=1024)
def _task(dag_id: str, run_id: str, task_id: str, map_index: int, region_id: str) -> Place:
    columns = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index, "region_id": region_id}
    return Place(
        identity=digest(["task", dag_id, run_id, task_id, map_index, region_id]),
        family=digest(["tasks", dag_id, run_id, task_id]),
        columns=_described(columns),
    )


@lru_cache(maxsize=1024)
def _asset(asset_id: int | None, name: str | None, uri: str | None) -> Place:
    known = {"id": asset_id, "name": name, "uri": uri}
    field, value = next((field, value) for field, value in known.items() if value is not None)
    identity = digest(["asset", field, value])
    columns = {"asset_id": asset_id, "asset_name": name, "asset_uri": uri}
    return Place(identity=identity, family=identity, columns=_described(columns))


def _described(known: Mapping[str, object]) -> Mapping[str, object]:
    return {name: known.get(name) for name in COLUMNS}


def digest(parts: list[object]) -> str:
    """The identity of what has these parts: no two lists have the same."""
    return hashlib.sha256(dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()


def key_digest(key: str) -> str:
    """The identity of a key.

    Raises:
        InvalidKeyError: it is not 1 to 512 characters of text, or has a NUL in it, or half a surrogate pair.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or "\x00" in key:
        raise InvalidKeyError(f"{key!r} cannot be a key.", f"Use 1 to {MAX_KEY} characters, and no NUL.")
    try:
        return hashlib.sha256(key.encode()).hexdigest()
    except UnicodeEncodeError:
        raise InvalidKeyError(f"{key!r} cannot be a key: it has half a surrogate pair in it") from None
