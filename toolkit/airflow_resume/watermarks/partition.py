"""Partitions: one mark for each part of an asset, such as a table or a tenant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_resume.errors import WatermarkInputError
from airflow_resume.watermarks.keys import partition_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext

Partition: TypeAlias = "JsonValue | Callable[..., Any]"


def resolve_partition(partition: Partition, context: AnyContext, arguments: Mapping[str, Any]) -> JsonValue:
    """The partition of this task instance.

    Args:
        partition: JSON, or a function whose parameters have the names of the task function's parameters, or of keys in
            the context: `partition=lambda table: table`, `partition=lambda ti: ti.map_index`.
        context: of the task.
        arguments: of the task's function.

    Raises:
        WatermarkInputError: a parameter has no such name, or what comes out is not JSON.
    """
    found: Any = partition
    if callable(partition):
        offered = {**context, **arguments, "context": context}
        parameters = inspect.signature(partition).parameters
        names = [name for name in parameters if name in offered]
        missing = [name for name, one in parameters.items() if name not in offered and one.default is one.empty]
        if missing:
            raise WatermarkInputError(
                f"partition= takes {', '.join(missing)}, which is neither an argument of the task's function"
                f" ({', '.join(arguments) or 'it has none'}) nor a key of the context.",
                "Name its parameters like these.",
                given="partition",
            )
        found = partition(**{name: offered[name] for name in names})
        if found is None:
            raise WatermarkInputError(
                "partition= returned None.", "Give every instance a part of its own.", given="partition"
            )
    if found is not None:
        partition_text(found)
    return found  # type: ignore[no-any-return]
