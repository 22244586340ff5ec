"""References: what Airflow keeps in place of a value that is kept here.

A value below the threshold is its own reference, as plain JSON, so that Airflow's UI shows it. Any other is

    airflow-resume:1:<id of the database>:<identity of the scope>:<key, percent-quoted>

which is no JSON, so the two cannot be mixed up. It is the same for the same scope and key, whatever the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from airflow_resume.errors import StateReferenceError

_PREFIX = "airflow-resume:1:"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Where a value is."""

    store_id: str
    scope_hash: str
    key: str

    def __str__(self) -> str:
        return f"{_PREFIX}{self.store_id}:{self.scope_hash}:{quote(self.key, safe='')}"


def is_inline(stored: str) -> bool:
    """Whether it is the value itself, as JSON."""
    return not stored.startswith("airflow-resume:")


def parse(stored: str) -> Reference:
    """Read a reference.

    Raises:
        StateReferenceError: it is none of this version's.
    """
    parts = stored.removeprefix(_PREFIX).split(":")
    if not stored.startswith(_PREFIX) or len(parts) != 3:  # noqa: PLR2004  see above
        raise StateReferenceError(f"{stored!r} is not a reference that this version of airflow-resume can follow")
    store_id, scope_hash, key = parts
    return Reference(store_id=store_id, scope_hash=scope_hash, key=unquote(key))
