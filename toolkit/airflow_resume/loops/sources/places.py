"""Positions within a page whose rows have no keys: a number, and a fingerprint that shows whether it is still valid.

Theory of operation. A position within a page is the position of the page, how many of its items are done, and how many
it has. A later attempt fetches the page again, and its content may have changed: if the rows that are done are deleted,
the API fills the page up with others. So the saved position also has a fingerprint of the items that are done. If the
page does not begin with the same items, it is delivered again from its start.

A fingerprint costs more than everything else that a loop does for an element. So a `Place` has none, but refers to the
items: the fingerprint is computed when the position is written, and continues from the one written before. If the body
changes an item in place before that, the fingerprint never matches, and the page is delivered again.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_resume import values

if TYPE_CHECKING:
    from pydantic import JsonValue

_PROOF = "print"
_MEMBERS = {"page", "index", "of", _PROOF}
_FORMAT = 2
"""Of `marshal`: the last version that writes equal values alike, whether or not they are the same object."""


class Prints:
    """Fingerprints of the first n items of a page; for a growing n each item is read once."""

    def __init__(self, items: Sequence[object]) -> None:
        self._items = items
        self._start_again()

    def _start_again(self) -> None:
        self._rest = iter(self._items)
        self._taken = 0
        self._hash = blake2b(digest_size=8)
        self._is_void = False

    def of(self, count: int) -> str:
        """The fingerprint of the first `count` items; empty, which matches nothing, if an item cannot be described."""
        if count < self._taken:
            self._start_again()
        try:
            for item in islice(self._rest, count - self._taken):
                self._hash.update(described(item))
        except Exception:  # noqa: BLE001  whatever a user's item raises: nothing is proven
            self._is_void = True
        self._taken = count
        return "" if self._is_void else self._hash.hexdigest()

    def of_item(self, number: int) -> str:
        """The fingerprint of one item, by its index."""
        try:
            return blake2b(described(self._items[number]), digest_size=8).hexdigest()
        except Exception:  # noqa: BLE001  as above
            return ""


class Place(dict[str, "JsonValue"]):
    """A position within a page, or after its last item, in memory; `proven` is the one to save.

    Args:
        position: as JSON, without the fingerprint.
        prints: of the items of the page.
        done: how many of them are done.
    """

    __slots__ = ("_done", "_prints")

    def __init__(self, position: dict[str, JsonValue], prints: Prints, done: int) -> None:
        super().__init__(position)
        self._prints, self._done = prints, done

    def proven(self) -> JsonValue:
        """The position as it is saved, with the fingerprint; after the last item of a page it needs none."""
        return {**self, _PROOF: self._prints.of(self._done)} if "of" in self else dict(self)

    def last_item(self) -> str:
        """A fingerprint of the item before it."""
        return self._prints.of_item(self._done - 1)


class PlaceLostError(Exception):
    """The page does not begin with the items that were done: the loop goes back to the start of the page.

    Args:
        position: at the start of the page.
        done: how many items of the page are done, and are delivered again.
    """

    def __init__(self, position: JsonValue, done: int) -> None:
        super().__init__(position, done)
        self.position, self.done = position, done


def saved(position: JsonValue) -> JsonValue:
    """A position as it is saved."""
    return position.proven() if isinstance(position, Place) else position


def named(position: JsonValue) -> JsonValue:
    """A position without its fingerprint: the same in every attempt."""
    if not isinstance(position, dict) or position.keys() != _MEMBERS:
        return position
    return {name: value for name, value in position.items() if name != _PROOF}


def identity_of(before: JsonValue, after: JsonValue) -> list[JsonValue]:
    """What identifies an element that was done ahead of others: the positions around it, and its content if known."""
    return [named(before), named(after), *([after.last_item()] if isinstance(after, Place) else [])]


def is_proven(place: dict[str, Any], items: Sequence[object]) -> bool:
    """Whether these items begin with those that were done."""
    return place.get("of") == len(items) and place.get(_PROOF, "") == Prints(items).of(place["index"]) != ""


def described(item: Any, depth: int = 0) -> bytes:
    """An item as bytes: equal items give equal bytes in any process, and different items do not.

    Raises:
        ValueError: that is not possible. The `repr` of an object does not count, as it may omit what differs.
        ...: what its own methods raise.
    """
    if isinstance(item, (set, frozenset)):  # its order differs from process to process
        return _joined(item, sorted(described(part, depth + 1) for part in item))
    try:
        return marshal.dumps(item, _FORMAT)
    except ValueError:  # a part of it has none of Python's simple types
        pass
    try:
        text = values.dumps(values.encode(item))
    except (TypeError, ValueError):
        return _described_by_content(item, depth)
    return f"{type(item).__name__}/{len(text)}/{text}".encode("utf-8", "surrogatepass")


_DEEPEST = 8
"""Something that is nested more deeply is no row, but part of a graph, which may be large."""


def _described_by_content(item: Any, depth: int) -> bytes:
    if depth > _DEEPEST or hasattr(item, "shape"):  # an array or a frame
        raise ValueError(type(item).__name__)
    if isinstance(item, type):
        return _joined(item, [f"{item.__module__}.{item.__qualname__}".encode()])
    parts: list[Any]
    if isinstance(item, Mapping) or (hasattr(item, "keys") and hasattr(item, "__getitem__")):
        parts = [part for key in item.keys() for part in (key, item[key])]  # noqa: SIM118  not all iterate their keys
    elif isinstance(item, Sequence) and not isinstance(item, (str, bytes, bytearray)):  # e.g. a row of a driver
        parts = list(item)
    else:
        parts = _content_of(item)
    return _joined(item, [described(part, depth + 1) for part in parts])


def _content_of(item: object) -> list[Any]:
    """What `copy` would copy: the fields of a data class, of a model, of any object, with or without slots.

    Raises:
        ValueError: it has no content, so what distinguishes it is elsewhere.
        TypeError: its class hides its content.
    """
    reduced = item.__reduce_ex__(4)
    if isinstance(reduced, str):  # the name of a constant
        return [reduced]
    make, arguments, *rest = reduced
    state, others = (rest[0], rest[1:]) if rest else (None, [])
    # The first argument of these is the class itself.
    parts = [*(arguments[1:] if getattr(make, "__name__", "") in {"__newobj__", "__newobj_ex__"} else arguments)]
    for part in state if isinstance(state, tuple) else (state,):
        parts += [inner for pair in part.items() for inner in pair] if isinstance(part, dict) else [part]
    parts += [list(other) for other in others if isinstance(other, Iterator)]
    if all(part is None for part in parts):
        raise ValueError(type(item).__name__)
    return parts


def _joined(item: object, parts: list[bytes]) -> bytes:
    """The parts in one value; different lists of parts give different values."""
    return b" ".join([type(item).__name__.encode(), *(part.hex().encode() for part in parts), b";"])


def print_of_simple(item: object) -> str | None:
    """A fingerprint of an immutable simple value; None for any other."""
    if isinstance(item, PurePath):
        item = str(item)
    if type(item) is tuple:
        parts = [print_of_simple(part) for part in item]
        return None if None in parts else values.fingerprint(parts, length=8)
    if item is None or type(item) not in _SIMPLE:
        return None
    return blake2b(described(item), digest_size=4).hexdigest()


_SIMPLE = {str, bytes, int, float, bool, date, datetime, Decimal, UUID}
