"""Values that a worker hands over: large ones are kept here, and Airflow gets a reference; it keeps small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.attempt import how_to_delete_a_key
from airflow_resume.backends.dialects.base import byte_size
from airflow_resume.backends.rows import statements
from airflow_resume.backends.rows.value_table import ValueTable
from airflow_resume.backends.schema.migrations import read_ids
from airflow_resume.backends.values.codecs import INLINE, inline_value
from airflow_resume.backends.values.references import Reference, read
from airflow_resume.backends.values.scopes import AnyScope, key_digest
from airflow_resume.backends.values.texts import text_of, value_in_row
from airflow_resume.backends.values.writer import writing_attempt
from airflow_resume.errors import DanglingReferenceError, StateReferenceError

if TYPE_CHECKING:
    from pydantic import JsonValue


def keep(values: ValueTable, scope: AnyScope, key: str, value: JsonValue, *, inline_bytes: int) -> str:
    """What Airflow gets for a value: a reference, or the value itself if it has fewer bytes.

    Raises:
        SupersededError: a later attempt of this task instance has written the value. Nothing was changed.
        InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
    """
    text = text_of(value)
    key_digest(key)
    if byte_size(text) < inline_bytes:
        return values.cipher.encrypt(text, INLINE)
    row = values.row(scope, key, text, writer=writing_attempt(), referenced=True)
    values.write_unless_newer(row)
    store_id = str(values.database.autocommit(read_ids).store_id)
    return str(Reference(store_id=store_id, scope_hash=row.place.identity, key=key))


def resolve(values: ValueTable, stored: str, where: object, *, on_dangling: str) -> JsonValue:
    """The value that Airflow has, or has a reference to.

    Args:
        values: what references lead to.
        stored: what Airflow has.
        where: the backend, for people.
        on_dangling: what a reference without a value gives: an error (`raise`), or None (`missing`).

    Raises:
        DanglingReferenceError: the value is gone, and the policy is not to take that for a missing one.
        StateReferenceError: it is in another database, or this is neither a reference that we know nor a value.
        UnreadableRecordError: the reference leads to a text that is not that of a value.
        CodecError: the value cannot be decrypted.
    """
    reference = read(inline_value(values.cipher, stored))
    if not isinstance(reference, Reference):
        return reference
    at = {"at_scope": reference.scope_hash, "at_key": key_digest(reference.key)}
    kept, store_id = values.database.autocommit(
        lambda connection: statements.read_referenced(connection, at), only_reads=True
    )
    if reference.store_id != store_id:
        _require_ours(values, reference, where)
    if kept is not None:
        text = values.decrypted(kept, at, reference.key)
        return value_in_row(text, reference.key, where, is_secret=values.cipher.encrypts)
    if on_dangling == "missing":
        return None
    raise DanglingReferenceError(
        f"Airflow has a reference to the value of {reference.key!r}, and the value is not in {where!r} any more.",
        f"To begin anew, {how_to_delete_a_key()}; where lost values may be taken for missing, set"
        " [airflow_resume] backend_on_dangling = missing.",
        key=reference.key,
        store_id=reference.store_id,
    )


def _require_ours(values: ValueTable, reference: Reference, where: object) -> None:
    """Refuse a reference with another id than the database has."""
    ids = values.database.autocommit(read_ids)
    if reference.store_id == ids.store_id:  # it was given this one since
        return
    if reference.store_id in ids.former_ids:
        raise StateReferenceError(
            f"The reference to the value of {reference.key!r} has the id {reference.store_id}, which {where!r} had"
            f" before it was given a new id. Now it is {ids.store_id}. So it was written here before that, or in a"
            " database that this one is a copy of, or that is a copy of this one.",
            f"To begin anew, {how_to_delete_a_key()}; to go on with the value that is here, replace the old id by"
            " the present one in the references of the Airflow that uses this database.",
            key=reference.key,
            store_id=reference.store_id,
        )
    raise StateReferenceError(
        f"The value of {reference.key!r} is in the database {reference.store_id}, and {where!r} is {ids.store_id}.",
        "See whether it is a file of another host, or the URL was changed.",
        key=reference.key,
        store_id=reference.store_id,
    )
