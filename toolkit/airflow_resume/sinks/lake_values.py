"""Values in the types of a table, if nothing is lost by that.

Arrow rounds, truncates and drops more than one would expect: the fields of a struct that the table does not have, the
time of a date, the zone of a time. So what it has made of the values is compared with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute
from pyarrow import types

from airflow_resume.shown import short_repr

pc: Any = pyarrow.compute
"""Its functions are made when it is imported, so type checkers do not know them."""
_MOST_NAMED = 5


def check_names(names: Sequence[str], known: Sequence[str], target: str, *, within: str = "") -> None:
    """Check that a table or a struct has these columns or fields.

    Args:
        names: that were given.
        known: that there are.
        target: what the table is called in messages.
        within: the column, if it is a struct.

    Raises:
        ValueError: it has not.
    """
    unknown = [name for name in names if name not in set(known)]
    if not unknown:
        return
    shown = ", ".join(short_repr(name) for name in unknown[:_MOST_NAMED])
    more = " and others" if len(unknown) > _MOST_NAMED else ""
    where = f"The column {within} of {target} has no field" if within else f"{target} has no column"
    text = f"{where} {shown}{more}.\nIts {'fields' if within else 'columns'} are {', '.join(known)}."
    if any(name.startswith("__index_level_") for name in unknown) and not within:
        text += (
            "\nIt is the index of a data frame of pandas: append frame.reset_index(drop=True), or name the index and"
            " append frame.reset_index() if it is a column."
        )
    raise ValueError(text)


# --- values of Python -----------------------------------------------------------------------------------------------

_SURE: tuple[tuple[Any, frozenset[type]], ...] = (
    (types.is_integer, frozenset({int, type(None)})),
    (types.is_float64, frozenset({float, type(None)})),
    (types.is_boolean, frozenset({bool, type(None)})),
    (types.is_string, frozenset({str, type(None)})),
    (types.is_large_string, frozenset({str, type(None)})),
    (types.is_binary, frozenset({bytes, type(None)})),
    (types.is_large_binary, frozenset({bytes, type(None)})),
)
"""Values of these types are kept by Arrow as they are, or are refused by it."""


def of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, target: str) -> pa.Table:
    """Dicts as an Arrow table of this schema.

    Raises:
        TypeError, ValueError: a value does not fit its column, or would be another one there.
    """
    columns = [_of_values([row.get(field.name) for row in rows], field, target) for field in schema]
    return pa.table(columns, schema=schema)


def _of_values(values: Sequence[Any], field: pa.Field, target: str) -> pa.Array:
    try:
        made = pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"A value does not fit the column {field.name} ({field.type}) of {target}: {error}") from error
    given = set(map(type, values))
    if not any(is_of(field.type) and given <= sure for is_of, sure in _SURE):
        for value, kept in zip(values, made.to_pylist(), strict=True):
            _check(value, kept, field.type, field.name, target)
    return made


def _check(value: Any, kept: Any, kind: pa.DataType, where: str, target: str) -> None:
    """Check that what is kept is the value."""
    if kept is None or value is None:
        if kept is not None or not _is_null(value):
            _refuse(value, kept, kind, where, target)
    elif types.is_struct(kind):
        fields = dict(value)
        check_names([*fields], [each.name for each in kind], target, within=where)
        for each in kind:
            _check(fields.get(each.name), kept[each.name], each.type, f"{where}.{each.name}", target)
    elif types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        for (key, item), (kept_key, kept_item) in zip(pairs, kept, strict=True):
            _check(key, kept_key, kind.key_type, where, target)
            _check(item, kept_item, kind.item_type, where, target)
    elif _is_list(kind):
        for item, kept_item in zip(value, kept, strict=True):
            _check(item, kept_item, kind.value_type, where, target)
    elif not _is_same(value, kept, kind):
        _refuse(value, kept, kind, where, target)


def _is_null(value: Any) -> bool:
    return (
        value is None
        or type(value).__name__ in {"NaTType", "NAType"}
        or (isinstance(value, float) and math.isnan(value))
    )


def _is_same(value: Any, kept: Any, kind: pa.DataType) -> bool:
    if types.is_floating(kind) and isinstance(value, (float, Decimal)):
        return math.isnan(value) == math.isnan(kept) and math.isinf(value) == math.isinf(kept)
    if types.is_decimal(kind) and isinstance(value, float):
        return float(kept) == value
    if isinstance(kept, datetime):
        return _is_same_time(value, kept)
    if isinstance(kept, date) and isinstance(value, datetime):
        return value.tzinfo is None and value == datetime.combine(kept, time())
    return bool(kept == value) or bool(kept == getattr(value, "bytes", value))  # an UUID


def _is_same_time(value: Any, kept: datetime) -> bool:
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime) or kept.tzinfo is None or value.tzinfo is None:
        return bool(kept == value)
    # In UTC, because two times of different zones are never equal if one is in an hour that comes twice.
    return kept.astimezone(timezone.utc) == value.astimezone(timezone.utc)


# --- values of Arrow ------------------------------------------------------------------------------------------------


def of_column(column: pa.ChunkedArray, field: pa.Field, target: str) -> pa.ChunkedArray:
    """A column in the type of the table.

    Raises:
        ValueError: a value does not fit it, or would be another one there.
    """
    if column.type == field.type:
        return column
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    _check_types(column.type, field.type, field.name, target)
    try:
        made = column.cast(field.type)
        for given, kept in _leaves(column.combine_chunks(), made.combine_chunks()):
            _check_leaf(given, kept, field.name, target)
    except pa.ArrowException as error:
        raise ValueError(
            f"A value does not fit the column {field.name} ({field.type}) of {target}, or would be another one there:"
            f" {error}"
        ) from error
    return made


def _kind(of: pa.DataType) -> str:
    """What is never cast to another kind. Numbers may be cast to each other, and dates to times without a zone."""
    kinds = {
        "number": types.is_integer(of) or types.is_floating(of) or types.is_decimal(of),
        "text": types.is_string(of) or types.is_large_string(of) or types.is_string_view(of),
        "bytes": types.is_binary(of)
        or types.is_large_binary(of)
        or types.is_fixed_size_binary(of)
        or types.is_binary_view(of),
        "time with a zone": types.is_timestamp(of) and of.tz is not None,
        "time without a zone, or date": types.is_timestamp(of) or types.is_date(of),
        "list": _is_list(of),
    }
    return next((kind for kind, holds in kinds.items() if holds), "")


def _is_list(of: pa.DataType) -> bool:
    return bool(types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of))


def _check_types(given: pa.DataType, kind: pa.DataType, where: str, target: str) -> None:
    if given == kind or types.is_null(given) or isinstance(kind, pa.BaseExtensionType):
        return
    if types.is_struct(given) and types.is_struct(kind):
        check_names([each.name for each in given], [each.name for each in kind], target, within=where)
        for each in given:
            _check_types(each.type, kind.field(each.name).type, f"{where}.{each.name}", target)
        return
    if types.is_map(given) and types.is_map(kind):
        _check_types(given.key_type, kind.key_type, where, target)
        _check_types(given.item_type, kind.item_type, where, target)
        return
    if _kind(given) != _kind(kind) or (_kind(kind) == "" and given.id != kind.id):
        raise ValueError(
            f"The column {where} of {target} has the type {kind}, and was given {given}.\nConvert the values before."
        )
    if _is_list(kind):
        _check_types(given.value_type, kind.value_type, where, target)


def _leaves(given: Any, kept: Any) -> Iterator[tuple[Any, Any]]:
    """The arrays in an array that have no further arrays in them, each with what was made of it."""
    if types.is_struct(given.type):
        for each in given.type:
            yield from _leaves(pc.struct_field(given, each.name), pc.struct_field(kept, each.name))
    elif types.is_map(given.type):
        yield from _leaves(given.keys, kept.keys)
        yield from _leaves(given.items, kept.items)
    elif _is_list(given.type):
        yield from _leaves(given.flatten(), kept.flatten())
    else:
        yield given, kept


def _check_leaf(given: Any, kept: Any, where: str, target: str) -> None:
    if given.type == kept.type or types.is_null(given.type):
        return
    if types.is_floating(kept.type) and (types.is_floating(given.type) or types.is_decimal(given.type)):
        differ = pc.not_equal(pc.is_inf(kept), pc.is_inf(given.cast(pa.float64())))
    else:
        differ = pc.not_equal(kept.cast(given.type), given)
    found = pc.index(differ, True).as_py()
    if found >= 0:
        _refuse(given[found].as_py(), kept[found].as_py(), kept.type, where, target)


def _refuse(value: Any, kept: Any, kind: pa.DataType, where: str, target: str) -> NoReturn:
    raise ValueError(
        f"{short_repr(value)} does not fit the column {where} ({kind}) of {target}: it would be"
        f" {short_repr(kept)} there.\nConvert it before."
    )
