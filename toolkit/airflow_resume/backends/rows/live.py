"""The references that Airflow has, as they are handed to a cleanup: read once, strictly, before anything is deleted.

They decide what is deleted, so one that makes no sense is refused instead of being taken for "no such reference".
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from airflow_resume.backends.values.codecs import PREFIX as ENCRYPTED
from airflow_resume.backends.values.references import PREFIX, Reference, read
from airflow_resume.errors import StateReferenceError

if TYPE_CHECKING:
    from sqlalchemy.engine import Row

Live: TypeAlias = "frozenset[tuple[str, str]]"
"""The identity of the scope, and the key, of each reference to a value of this database."""

ENVELOPE = "__airflow_state_ref__"
"""The one field of the object in which Airflow's API shows a reference."""
_WANTED = "Pass the references as texts, one an item: airflow-resume:1:..."


def read_live(references: object, ids: Callable[[], Container[str]]) -> Live:
    """The references to values of this database. An iterator is read once, to its end.

    Args:
        references: what was handed in.
        ids: asks for the id of this database, and those that it had before. It is called after the last reference, as
            one with a new id may have come among them.

    What Airflow keeps inline is passed over, encrypted or not, and so are references to other databases, as long as one
    leads here.

    Raises:
        TypeError: not an iterable of texts or of Airflow's objects around them.
        StateReferenceError: one of them cannot be read; or there are some, and all lead to other databases.
    """
    if isinstance(references, (str, bytes, bytearray, Mapping)) or not isinstance(references, Iterable):
        raise TypeError(f"live is a {type(references).__name__}, not a collection of references. {_WANTED}")
    read = {reference for each in references if (reference := _read(each)) is not None}
    ours = ids()
    here = frozenset((each.scope_hash, each.key) for each in read if each.store_id in ours)
    if read and not here:
        raise StateReferenceError(
            f"All {len(read)} references of live lead to other databases, so nothing was deleted.",
            "Was this database copied, or the URL changed? Collect the references of the Airflow that uses this one.",
        )
    return here


def is_live(live: Live, row: Row[tuple[object, ...]]) -> bool:
    """Whether a reference leads to the value of this row."""
    return (row.scope_hash, row.key) in live


def _read(given: object) -> Reference | None:
    """The reference; None for what is kept inline. Anything else is refused, because it may be a damaged reference."""
    if isinstance(given, Mapping) and len(given) == 1:
        given = given.get(ENVELOPE)
    if not isinstance(given, str):
        raise TypeError(f"live has a {type(given).__name__} in it, which is not a reference. {_WANTED}")
    if given.startswith(ENCRYPTED):  # as references never are, whether there is a codec here or not
        return None
    found = read(given)
    if isinstance(found, str) and found.startswith(PREFIX):
        return _read(found)
    if isinstance(found, dict) and list(found) == [ENVELOPE]:
        return _read(found)
    return found if isinstance(found, Reference) else None
