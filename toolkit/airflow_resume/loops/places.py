"""Places within a page whose rows have no key: a number, and what proves that it still means the same.

Theory of operation. A position within a page is the position of the page, how many of its items are done, and how many
it has. The page is asked for again by a later attempt, and what came of it may have changed: whoever deletes the rows
that are done has the page filled up with others. So the position that is saved has a fingerprint of the done items as
well, and without the same ones in front the page is delivered again from its start.

A fingerprint costs more than all else that a loop does for an element. So a `Place` has none, and knows the items that
it would be made of: it is worked out when a position is written down, and goes on from the one that was written before.
The body of an item may change it in place before that; then the fingerprint never fits, and the page comes again.
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
"""Of `marshal`: the last one that writes equal values alike, whether or not they are one object."""


class Prints:
    """Fingerprints of the first items of a page, however many; those of ever more of them cost no more than one."""

    def __init__(self, items: Sequence[object]) -> None:
        self._items = items
        self._start_again()

    def _start_again(self) -> None:
        self._left = iter(self._items)
        self._taken = 0
        self._hash = blake2b(digest_size=8)
        self._fits_nothing = False

    def of(self, count: int) -> str:
        """The fingerprint of so many; empty, which fits nothing, where an item has none that a later process has."""
        if count < self._taken:
            self._start_again()
        try:
            for item in islice(self._left, count - self._taken):
                self._hash.update(described(item))
        except Exception:  # noqa: BLE001  whatever an item of the user's does: nothing is proven
            self._fits_nothing = True
        self._taken = count
        return "" if self._fits_nothing else self._hash.hexdigest()

    def of_item(self, number: int) -> str:
        """That of one item, by its number from 0."""
        try:
            return blake2b(described(self._items[number]), digest_size=8).hexdigest()
        except Exception:  # noqa: BLE001  as above
            return ""


class Place(dict[str, "JsonValue"]):
    """A position within a page, or after its last item, as it stands in memory; see `proven`.

    Args:
        position: as JSON, which names the place and proves nothing.
        prints: of the items of the page.
        done: how many of them are done.
    """

    __slots__ = ("_done", "_prints")

    def __init__(self, position: dict[str, JsonValue], prints: Prints, done: int) -> None:
        super().__init__(position)
        self._prints, self._done = prints, done

    def proven(self) -> JsonValue:
        """The position as it is saved; after the last item of a page it needs no proof."""
        return {**self, _PROOF: self._prints.of(self._done)} if "of" in self else dict(self)

    def last_item(self) -> str:
        """A fingerprint of the item before it."""
        return self._prints.of_item(self._done - 1)


class PlaceLostError(Exception):
    """The items of a page are not those that were done: the loop goes on at the start of the page.

    Args:
        position: there.
        done: how many items of the page are done, and come again.
    """

    def __init__(self, position: JsonValue, done: int) -> None:
        super().__init__(position, done)
        self.position, self.done = position, done


def saved(position: JsonValue) -> JsonValue:
    """A position as it is written down."""
    return position.proven() if isinstance(position, Place) else position


def named(position: JsonValue) -> JsonValue:
    """A position as it names a place, in every attempt alike: without what proves it."""
    if not isinstance(position, dict) or position.keys() != _MEMBERS:
        return position
    return {name: value for name, value in position.items() if name != _PROOF}


def told_apart(before: JsonValue, after: JsonValue) -> list[JsonValue]:
    """What an element is known by that was done ahead of others: where it stands, and what it is, if that is known."""
    return [named(before), named(after), *([after.last_item()] if isinstance(after, Place) else [])]


def is_proven(place: dict[str, Any], items: Sequence[object]) -> bool:
    """Whether the items that were done stand in front of these."""
    return place.get("of") == len(items) and place.get(_PROOF, "") == Prints(items).of(place["index"]) != ""


def described(item: Any, depth: int = 0) -> bytes:
    """An item as bytes that an equal one has in any process, and that no other one has.

    Raises:
        ValueError: it has none. A text that it shows of itself is no description: it may leave out what differs.
        ...: what its own methods raise.
    """
    if isinstance(item, (set, frozenset)):  # in another order in every process
        return _joined(item, sorted(described(part, depth + 1) for part in item))
    try:
        return marshal.dumps(item, _FORMAT)
    except ValueError:  # some part of it is none of Python's simple types
        pass
    try:
        text = values.dumps(values.encode(item))
    except (TypeError, ValueError):
        return _described_by_content(item, depth)
    return f"{type(item).__name__}/{len(text)}/{text}".encode("utf-8", "surrogatepass")


_DEEPEST = 8
"""What refers to more inside itself is no row, but a part of a graph, which may be a large one."""


def _described_by_content(item: Any, depth: int) -> bytes:
    if depth > _DEEPEST or hasattr(item, "shape"):  # an array or a frame
        raise ValueError(type(item).__name__)
    if isinstance(item, type):
        return _joined(item, [f"{item.__module__}.{item.__qualname__}".encode()])
    parts: list[Any]
    if isinstance(item, Mapping) or (hasattr(item, "keys") and hasattr(item, "__getitem__")):
        parts = [part for key in item.keys() for part in (key, item[key])]  # noqa: SIM118  not all iterate their keys
    elif isinstance(item, Sequence) and not isinstance(item, (str, bytes, bytearray)):  # rows of database drivers
        parts = list(item)
    else:
        parts = _content_of(item)
    return _joined(item, [described(part, depth + 1) for part in parts])


def _content_of(item: object) -> list[Any]:
    """What `copy` would make another one of: the fields of a data class, of a model, of any object, in slots or not.

    Raises:
        ValueError: it has nothing inside, so whatever tells it from others is elsewhere.
        TypeError: only its class knows what is in it.
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
    """So that no two lists of parts make the same."""
    return b" ".join([type(item).__name__.encode(), *(part.hex().encode() for part in parts), b";"])


def print_of_simple(item: object) -> str | None:
    """A fingerprint of a value that no body can change in place; None for any other."""
    if isinstance(item, PurePath):
        item = str(item)
    if type(item) is tuple:
        parts = [print_of_simple(part) for part in item]
        return None if None in parts else values.fingerprint(parts, length=8)
    if item is None or type(item) not in _SIMPLE:
        return None
    return blake2b(described(item), digest_size=4).hexdigest()


_SIMPLE = {str, bytes, int, float, bool, date, datetime, Decimal, UUID}
