"""The keys under which a watermark stores its records, made from the asset, the name and the partition.

A key has only characters that a URL takes as they are (RFC 3986, "unreserved"). Others would be decoded on the way, and
another key would be read or written.
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
from airflow_resume.errors import InvalidValueError, WatermarkInputError
from airflow_resume.shown import short_repr

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
    """The keys of one watermark and partition.

    Args:
        mark: the key of the mark, in the asset's store.
        window: of the window of a run, in its task's store.
        note: of the XCom in which a run notes where the mark stands.
        entry: of the line in an asset event.
        old: those of version 0.1, whose records are taken over; its windows and XComs do not name their asset.
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
            partition: of this task instance; None: the asset has no partitions.

        Raises:
            InvalidKeyError: the name cannot be a part of a key. WatermarkInputError: the partition is not JSON.
        """
        return _keys(asset, name, None if partition is None else partition_text(partition))


@lru_cache(maxsize=256)
def _keys(asset: str, name: str, partition: str | None) -> Keys:
    """As `Keys.of`, with the partition as canonical JSON."""
    values.make_key(MARK, name)
    parts = [name]
    if partition is not None:  # text as it is, other JSON after `~j`, so that no two partitions share a key
        is_text = partition.startswith('"')
        parts.append(url_safe(json.loads(partition)) if is_text else f"{_JSON}{url_safe(partition)}")
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
    """The key; if it is too long, its beginning and a part of its SHA-256."""
    if len(key) <= _MAX_KEY:
        return key
    return f"{key[: _MAX_KEY - _TAIL - 1]}-{hashlib.sha256(key.encode()).hexdigest()[:_TAIL]}"


def url_safe(text: str) -> str:
    """The text, with each byte of its UTF-8 that is not a letter, digit, `_`, `.` or `-` as `~` and two hex digits."""
    return re.sub(_OTHER, lambda found: b"~%02X" % found[0][0], text.encode()).decode()


def partition_text(partition: JsonValue) -> str:
    """The partition as canonical JSON.

    Raises:
        WatermarkInputError: it is not JSON.
    """
    try:
        values.check(partition, at="partition")
    except InvalidValueError as error:
        raise WatermarkInputError(
            f"The partition {short_repr(partition)} is not JSON ({error.message}).",
            "Make it text, a number, or a list or dict of these.",
            given="partition",
        ) from error
    return values.dumps(partition)
