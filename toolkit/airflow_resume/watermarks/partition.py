"""Partitions: several marks of one asset, one for each part of it, such as a table or a tenant."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from airflow_resume import values
from airflow_resume.attempt import AnyContext
from airflow_resume.errors import InvalidValueError, PartitionError

if TYPE_CHECKING:
    from pydantic import JsonValue

Partition: TypeAlias = "JsonValue | Callable[..., Any]"
_MAX_KEY = 200
_TAIL = 16


def partition_key(prefix: str, name: str, partition: JsonValue) -> str:
    """The store key of a mark: `<prefix>.<name>`, with the partition behind it as percent-quoted canonical JSON.

    A key that would be too long keeps its beginning and ends with a part of its SHA-256.

    Raises:
        InvalidKeyError: the name makes none. PartitionError: the partition is not JSON.
    """
    key = values.make_key(prefix, name)
    if partition is None:
        return key
    whole = f"{key}.{quote(partition_text(partition), safe=':')}".replace("~", "%7E")
    if len(whole) <= _MAX_KEY:
        return whole
    tail = hashlib.sha256(whole.encode()).hexdigest()[:_TAIL]
    return f"{whole[: _MAX_KEY - _TAIL - 1]}-{tail}"


def partition_text(partition: JsonValue) -> str:
    """The partition as canonical JSON.

    Raises:
        PartitionError: it is not JSON.
    """
    try:
        values.check(partition, at="partition")
    except InvalidValueError as error:
        raise PartitionError(
            f"The partition {partition!r} is not JSON ({error.message})",
            "Make it text, a number, or a list or dict of these.",
        ) from error
    return values.dumps(partition)


def resolve_partition(partition: Partition, context: AnyContext, arguments: Mapping[str, Any]) -> JsonValue:
    """The partition of this task instance.

    Args:
        partition: JSON, or a function whose parameters are named like those of the task's function, or like keys of
            the context: `partition=lambda table: table`, `partition=lambda ti: ti.map_index`.
        context: of the task.
        arguments: of the task's function.

    Raises:
        PartitionError: a parameter has no such name, or what comes out is not JSON.
    """
    found: Any = partition
    if callable(partition):
        offered = {**context, **arguments, "context": context}
        parameters = inspect.signature(partition).parameters
        names = [name for name in parameters if name in offered]
        missing = [name for name, one in parameters.items() if name not in offered and one.default is one.empty]
        if missing:
            raise PartitionError(
                f"partition= takes {', '.join(missing)}, which is neither an argument of the task's function"
                f" ({', '.join(arguments) or 'it has none'}) nor a key of the context"
            )
        found = partition(**{name: offered[name] for name in names})
        if found is None:
            raise PartitionError("partition= returned None.", "Give every instance a part of its own.")
    if found is not None:
        partition_text(found)
    return found  # type: ignore[no-any-return]
