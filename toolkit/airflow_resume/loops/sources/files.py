"""A listing of files, which may grow between attempts.

Theory of operation. A position has the number of finished files, the last of them, and a hash of all of them in their
order. It is a rolling hash: that of n files is made from that of n - 1 and the nth name, so every position costs the
same. The listing of this attempt begins with the finished files if its first n names give the same hash; what was
appended after them does not matter. If they do not, only the place of the last finished file is known.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume import values
from airflow_resume.arguments import check_function, check_whole
from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import InvalidValueError, SourceChangedError, WrongAnswerError
from airflow_resume.loops.sources.order import refuse_unordered
from airflow_resume.loops.sources.source import Source, check_place, members
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

T_co = TypeVar("T_co", covariant=True)

log = get_logger(__name__)

_NONE_FINISHED = ""
_LONGEST_ANCHOR = 100


class Files(Source[T_co]):
    """The files of a listing, as they are given; files that are appended later are delivered as well.

    The listing is read once, when it is first needed, and must have a stable order: sort what has none. A position is
    the number of finished files, the last of them, and a hash of them all: `{"count", "last", "hash"}`. If the listing
    no longer begins with the finished files, the source has changed, and the loop's `on_change` applies; with
    `"resume"` the loop continues after the last finished file, and counts all before it as finished.

    Examples:
        >>> [path for path, _ in Files(["a.csv", "b.csv"]).elements(None)]
        ['a.csv', 'b.csv']
        >>> ((_, position), _) = Files(["a.csv", "b.csv"]).elements(None)
        >>> [path for path, _ in Files(["a.csv", "b.csv", "c.csv"]).elements(position)]
        ['b.csv', 'c.csv']
        >>> Files(["x.csv", "a.csv"]).changes(position)
        ["the last finished file 'a.csv' was number 1 of the listing, and is number 2 now"]

    Args:
        paths: strings, paths, or any objects whose `str` is the same in every attempt.
        identity: what identifies a file, if its path does not: a function of the element that returns a string or other
            JSON. If it contains a version or an ETag, a file that was replaced is a change too.

    Raises:
        SourceNotReopenableError: a set has no stable order.
        WrongAnswerError: two files have the same identity.
        SourceChangedError: to continue after the last finished file, it must be in the listing.
    """

    kind = "files"
    noun = "file"

    def __init__(self, paths: Iterable[T_co], *, identity: Callable[[Any], object] | None = None) -> None:
        refuse_unordered(paths)
        if isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable):
            raise TypeError(f"Files needs the paths of a listing, not {paths!r}.\nPass a list of them.")
        if identity is not None:
            check_function("identity", identity, "a function of a path")
        self._paths = paths
        self._identity = identity or _path_text

    @cached_property
    def _listing(self) -> list[T_co]:
        return list(self._paths)

    @cached_property
    def _names(self) -> list[str]:
        """The identities, in the order of the listing."""
        names = []
        for identity in map(self._identity, self._listing):
            if not isinstance(identity, str):
                identity = values.encode(identity)  # noqa: PLW2901  as it is compared
                values.check(identity, at="the identity of a file")
                identity = values.dumps(identity)  # noqa: PLW2901
            names.append(identity)
        if len(set(names)) < len(names):
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise WrongAnswerError(
                f"{_anchor(twice)!r} is in the listing more than once, so a position at it is ambiguous.",
                "List it once, or give Files(paths, identity=...) what distinguishes the two.",
                answered=twice,
            )
        return names

    def numbering(self) -> JsonValue:
        """While `changes` finds nothing, the nth file is the same one."""
        return True

    def steps(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of files."""
        return int(members(after).get("count", 0) - members(before).get("count", 0))

    def check(self, position: JsonValue) -> None:
        """It has the number of files and, unless that is 0, their hash and the name of the last one."""
        place = check_place(position)
        check_whole("count", place.get("count", 0), least=0)
        if place.get("count") and not (isinstance(place.get("last"), str) and isinstance(place.get("hash"), str)):
            raise TypeError("the last finished file and the hash are missing")

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """The length of the listing."""
        return len(self._listing)

    def changes(self, position: JsonValue) -> Sequence[str]:
        """What has changed about the finished files."""
        place = members(position)
        count = place.get("count", 0)
        if len(self._names) < count:
            return [f"the listing had {count} finished files, and has only {len(self._names)} now"]
        if self._is_prefix(place):
            return []
        last, number = place["last"], self._number_of(place["last"])
        if number is None:
            return [f"the last finished file {last!r} is no longer in the listing"]
        if number == count:
            before = repr(_anchor(self._names[count])) if count < len(self._names) else "the end"
            return [f"the {count} files before {before} are not those that were finished"]
        return [f"the last finished file {last!r} was number {count} of the listing, and is number {number} now"]

    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The files, each with the position after it."""
        done = self._entry(members(position))
        digest = _rolled(_NONE_FINISHED, self._names[:done])
        for path, name in zip(self._listing[done:], self._names[done:], strict=True):
            done += 1
            digest = _rolled(digest, [name])
            yield path, {"count": done, "last": _anchor(name), "hash": digest}

    def _entry(self, place: dict[str, Any]) -> int:
        """How many files of this listing are finished."""
        if self._is_prefix(place):
            return int(place.get("count", 0))
        number = self._number_of(place["last"])
        if number is None:
            raise SourceChangedError(
                f"{place['count']} files were finished before, and the last of them, {place['last']!r}, is no longer in"
                f" the listing, so the place to continue from is unknown.",
                f"Put it back, or {how_to_start_over()} to start over.",
                position=place,
            )
        log.warning("Continuing after %r: the %d files up to it count as finished", place["last"], number)
        return number

    def _is_prefix(self, place: dict[str, Any]) -> bool:
        """Whether the listing begins with the finished files."""
        count = place.get("count", 0)
        return bool(_rolled(_NONE_FINISHED, islice(self._names, count)) == place.get("hash", _NONE_FINISHED))

    def _number_of(self, anchor: str) -> int | None:
        """The number of a file in the listing, from 1; None if it is not in it, or not unambiguously."""
        numbers = [number for number, name in enumerate(self._names, start=1) if _anchor(name) == anchor]
        return numbers[0] if len(numbers) == 1 else None


def _rolled(digest: str, names: Iterable[str]) -> str:
    """The hash of the files so far, and of these after them."""
    for name in names:
        digest = hashlib.blake2b(f"{digest}/{name}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return digest


def _anchor(name: str) -> str:
    """A short name of a file: its identity if that is short, else the end of it and a hash."""
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
            f"The str() of a {type(path).__name__} differs from attempt to attempt.\n"
            f"Say what identifies one: Files(paths, identity=lambda file: file.name)."
        )
    return str(path)
