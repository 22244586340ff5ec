"""A listing of files, which may grow between attempts.

Theory of operation. A position holds how many files are finished, the last of them, and a hash of all of them in their
order. The hash rolls: that of n files is made from that of n - 1 and the nth name, so every position costs the same.
Today's listing has the finished files in front if its first n names give the same hash; what was appended after them
does not matter. If they do not, the last finished file is the only place in the listing that is known.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume import values
from airflow_resume.arguments import check_whole
from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import DuplicateFileError, InvalidValueError, SourceChangedError
from airflow_resume.loops.order import refuse_unordered
from airflow_resume.loops.source import Source, check_place, members

if TYPE_CHECKING:
    from pydantic import JsonValue

T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger(__name__)

_NONE_FINISHED = ""
_LONGEST_ANCHOR = 100


class Files(Source[T_co]):
    """The files of a listing, as they are given; files that are appended later are taken up.

    The listing is read once, when it is first needed, and must have an order that lasts: sort what has none. A position
    is the number of files finished, the last of them, and a hash of them all: `{"count", "last", "hash"}`. If the
    finished files are no longer those at the front of the listing, that is a change of the source and follows the
    loop's `on_change`; with `"resume"` the loop goes on after the last finished file, and counts all before it as
    finished.

    >>> [path for path, _ in Files(["a.csv", "b.csv"]).elements(None)]
    ['a.csv', 'b.csv']
    >>> ((_, position), _) = Files(["a.csv", "b.csv"]).elements(None)
    >>> [path for path, _ in Files(["a.csv", "b.csv", "c.csv"]).elements(position)]
    ['b.csv', 'c.csv']
    >>> Files(["x.csv", "a.csv"]).changes(position)
    ["the last finished file 'a.csv' was number 1 of the listing and is number 2"]

    Args:
        paths: texts, paths, or any objects with a text that is the same in every attempt.
        identity: what tells a file from every other, where its path does not: a function of the element that returns
            text or other JSON. With a version or an ETag in it, a file that was replaced is a change too.

    Raises:
        SourceNotReopenableError: a set has no order that lasts.
        DuplicateFileError: two files have the same identity.
        SourceChangedError: to go on after the last finished file, it must be in the listing.
    """

    kind = "files"
    noun = "file"

    def __init__(self, paths: Iterable[T_co], *, identity: Callable[[Any], object] | None = None) -> None:
        refuse_unordered(paths)
        if isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable):
            raise TypeError(f"Files needs the paths of a listing, not {paths!r}.\nPass a list of them.")
        if identity is not None and not callable(identity):
            raise TypeError(f"identity={identity!r} must be a function of a path")
        self._paths = paths
        self._identity = identity or _path_text

    @cached_property
    def _listing(self) -> list[T_co]:
        return list(self._paths)

    @cached_property
    def _names(self) -> list[str]:
        """The identities, in the order of the listing."""
        names = [_as_text(self._identity(path)) for path in self._listing]
        if len(set(names)) < len(names):
            raise _duplicate_error(names)
        return names

    def numbering(self) -> JsonValue:
        """What `changes` finds unchanged has the same files in it."""
        return True

    def check(self, position: JsonValue) -> None:
        """It has a number of files, and if there are any their hash and the name of the last."""
        place = check_place(position)
        check_whole("count", place.get("count", 0), least=0)
        if place.get("count") and not (isinstance(place.get("last"), str) and isinstance(place.get("hash"), str)):
            raise TypeError("finished files have a last one, and a hash")

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """The length of the listing."""
        return len(self._listing)

    def changes(self, position: JsonValue) -> Sequence[str]:
        """What became of the finished files."""
        place = members(position)
        count = place.get("count", 0)
        if len(self._names) < count:
            return [f"the listing shrank from {count} finished files to {len(self._names)}"]
        if self._is_prefix(place):
            return []
        number = self._number_of(place["last"])
        if number is None:
            return [f"the last finished file {place['last']!r} is no longer in the listing"]
        if number == count:
            return [f"among the {count} files before {self._next_named(count)} are others than were finished"]
        return [f"the last finished file {place['last']!r} was number {count} of the listing and is number {number}"]

    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The files, each with the position after it."""
        done = self._entry(members(position))
        digest = _rolled(_NONE_FINISHED, self._names[:done])
        for path, name in zip(self._listing[done:], self._names[done:], strict=True):
            done += 1
            digest = _rolled(digest, [name])
            yield path, {"count": done, "last": _anchor(name), "hash": digest}

    def _entry(self, place: dict[str, Any]) -> int:
        """How many files of today's listing are finished."""
        if self._is_prefix(place):
            return int(place.get("count", 0))
        number = self._number_of(place["last"])
        if number is None:
            raise SourceChangedError(
                f"{place['count']} files were finished before, the last was {place['last']!r}, and it is not in the"
                f" listing any more, so there is no place in it to go on from.",
                f"Put it back, or {how_to_start_over()} to start over.",
            )
        log.warning("Going on after %r: the %d files up to it count as finished", place["last"], number)
        return number

    def _is_prefix(self, place: dict[str, Any]) -> bool:
        """Whether the finished files are those at the front."""
        count = place.get("count", 0)
        return bool(_rolled(_NONE_FINISHED, islice(self._names, count)) == place.get("hash", _NONE_FINISHED))

    def _number_of(self, anchor: str) -> int | None:
        """Where in the listing a file is, from 1; None if it is not in it, or not for certain."""
        numbers = [number for number, name in enumerate(self._names, start=1) if _anchor(name) == anchor]
        return numbers[0] if len(numbers) == 1 else None

    def _next_named(self, count: int) -> str:
        return repr(_anchor(self._names[count])) if count < len(self._names) else "the end"


def _rolled(digest: str, names: Iterable[str]) -> str:
    """The hash of the files so far and these after them."""
    for name in names:
        digest = hashlib.blake2b(f"{digest}/{name}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return digest


def _anchor(name: str) -> str:
    """A short text for a file: its identity where that is short, else the end of it and a hash."""
    try:
        values.check(name)
    except InvalidValueError:
        readable = name.encode("ascii", "backslashreplace").decode().replace("\0", "\\0")
    else:
        if len(name) <= _LONGEST_ANCHOR:
            return name
        readable = name
    return f"...{readable[-60:]} #{_rolled(_NONE_FINISHED, [name])[:16]}"


def _path_text(path: object) -> str:
    if isinstance(path, os.PathLike):
        return os.fsdecode(path)
    if type(path).__str__ is object.__str__ and type(path).__repr__ is object.__repr__:
        raise TypeError(
            f"A {type(path).__name__} has no text that is the same in every attempt.\n"
            f"Say what tells one from another: Files(paths, identity=lambda file: file.name)."
        )
    return str(path)


def _as_text(identity: object) -> str:
    return identity if isinstance(identity, str) else values.dumps(_checked(identity))


def _checked(identity: object) -> JsonValue:
    encoded = values.encode(identity)
    values.check(encoded, at="the identity of a file")
    return encoded


def _duplicate_error(names: Sequence[str]) -> DuplicateFileError:
    seen: set[str] = set()
    twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return DuplicateFileError(
        f"{_anchor(twice)!r} is in the listing more than once, so a position at it means nothing.",
        "List it once, or give Files(paths, identity=...) what tells the two apart.",
    )
