"""Under which keys a watermark keeps what it knows: asset, name and partition stand in each.

A key is of the characters that a URL takes as they are (RFC 3986, "unreserved"), so it can be pasted into one: others
would be decoded on the way, and another key be read or written.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_resume import values
from airflow_resume.errors import InvalidValueError, PartitionError

if TYPE_CHECKING:
    from pydantic import JsonValue

MARK, WINDOW = "resume.watermark", "resume.window"
_SEPARATOR = "~~"
_JSON = "~j"
_OTHER = rb"[^A-Za-z0-9_.-]"
_MAX_KEY = 200
_TAIL = 16


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Where one watermark of one partition keeps what it knows.

    Args:
        mark: the key of the mark, in the asset's store.
        window: of the window of a run, in its task's store.
        note: of the XCom by which a run notes where the mark stands.
        entry: of the line in an asset event.
        old: the same of version 0.1, whose records are taken up; a window or a note of 0.1 did not say whose it is.
    """

    mark: str
    window: str
    note: str
    entry: str
    old: Keys | None = None

    @classmethod
    def of(cls, *, asset: str, name: str, partition: JsonValue = None) -> Keys:
        """The keys.

        Args:
            asset: its name.
            name: of the watermark.
            partition: of this task instance; None: the asset is one.

        Raises:
            InvalidKeyError: the name makes no key. PartitionError: the partition is not JSON.
        """
        return _keys(asset, name, None if partition is None else partition_text(partition))


@lru_cache(maxsize=256)
def _keys(asset: str, name: str, partition: str | None) -> Keys:
    """The keys; a partition as canonical JSON."""
    values.make_key(MARK, name)
    parts = [name] if partition is None else [name, _part(partition)]
    own = _SEPARATOR.join(parts)
    with_asset = _SEPARATOR.join([url_safe(asset), *parts])
    old_own = name if partition is None else f"{name}.{quote(partition, safe=':')}".replace("~", "%7E")
    old_mark = _cut(f"{MARK}.{old_own}")
    return Keys(
        mark=_cut(f"{MARK}.{own}"),
        window=_cut(f"{WINDOW}.{with_asset}"),
        note=_cut(f"{MARK}.{with_asset}"),
        entry=_cut(own),
        old=Keys(
            mark=old_mark,
            window=_cut(f"{WINDOW}.{old_own}"),
            note=old_mark,
            entry=old_mark.removeprefix(f"{MARK}."),
        ),
    )


def _cut(key: str) -> str:
    """The key; one that would be too long keeps its beginning and ends with a part of its SHA-256."""
    if len(key) <= _MAX_KEY:
        return key
    return f"{key[: _MAX_KEY - _TAIL - 1]}-{hashlib.sha256(key.encode()).hexdigest()[:_TAIL]}"


def url_safe(text: str) -> str:
    """The text; a byte of its UTF-8 that is no letter, digit, `_`, `.` or `-` becomes `~` and two hex digits."""
    return re.sub(_OTHER, lambda found: b"~%02X" % found[0][0], text.encode()).decode()


def _part(partition: str) -> str:
    """The partition as a part of a key: text as it is, other JSON after `~j`; no two partitions have one part."""
    return url_safe(json.loads(partition)) if partition.startswith('"') else f"{_JSON}{url_safe(partition)}"


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
