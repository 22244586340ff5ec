"""What callers wrote into their logs, and whether the database may have answered as it did.

A caller writes one line before each call and one after it:

    {"begin": 7, "operation": "set", "writes": {"k1": 7}, "at": 12.5}     None: the key is deleted
    {"going on": 7, "at": 12.55}                                          its first call has ended, the next begins
    {"done": 7, "at": 12.6, "read": {}}                                   what was read, by key
    {"failed": 7, "at": 17.6, "error": "StoreUnavailableError", "named": true, "text": "..."}
    {"died": 12.9}                                                        by whoever killed its process

Only one caller writes a key, one call at a time. A write that was acknowledged is there until the next one. A write
that failed may be done or not, until the next one is acknowledged: if it is done after that it is late, and has
replaced a newer value. Only a write whose process was killed may still be done for some seconds, as nobody was left
to prevent it. Times are seconds of the system's monotonic clock, which is the same in all processes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = ("lost", "torn", "wrong", "late", "unnamed", "misnamed")
"""Of faults: an acknowledged write is not there; a value is made of two; a value that nobody wrote there; a write that
its caller had given up has replaced a newer one; an error of another library;
an error of ours that no disturbance explains."""
SETTLED_SECONDS = 10.0
"""After so long nothing is on its way any more."""
EXPLAINED = frozenset({"StoreUnavailableError", "UnwritableStoreError full", "CleanupIncompleteError"})
"""Errors that a caller may get when servers are restarted, connections are cut and disks are full."""
INTERRUPTED = "Interrupted"
"""The exception of a signal handler, which is no error."""
TORN, FOREIGN = "torn", "foreign"
"""What is noted in place of the number of a value whose parts do not belong together, or belong to another key."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that must not happen."""

    kind: str
    text: str


@dataclass(kw_only=True)
class Pending:
    """A write that was not acknowledged."""

    value: int | None
    ended: float | None = None
    orphaned: bool = False

    def may_come_after(self, moment: float) -> bool:
        return self.orphaned and self.ended is not None and moment < self.ended + SETTLED_SECONDS


@dataclass(kw_only=True)
class Key:
    """What a key may hold."""

    value: int | None = None
    pending: dict[int, Pending] = field(default_factory=dict)
    given_up: dict[int | None, bool] = field(default_factory=dict)
    """By every value that was ever written, whether its write has failed."""

    def begin(self, number: int, value: int | None) -> None:
        self.pending[number] = Pending(value=value)
        self.given_up[value] = True

    def acknowledge(self, number: int, began: float) -> None:
        self.value = self.pending.pop(number).value
        self.given_up[self.value] = False
        self.pending = {each: write for each, write in self.pending.items() if write.may_come_after(began)}

    def give_up(self, number: int, at: float, *, orphaned: bool) -> None:
        self.pending[number].ended, self.pending[number].orphaned = at, orphaned

    def read(self, found: int | str | None, began: float) -> str | None:
        """The kind of fault that it is to find this in a read which began then, if it is one."""
        fault = self._fault(found)
        if not isinstance(found, str):
            self._know(found, began)
        return fault

    def _fault(self, found: int | str | None) -> str | None:
        if found == TORN:
            return "torn"
        if found == self.value or any(write.value == found for write in self.pending.values()):
            return None
        if isinstance(found, str) or (found is not None and found not in self.given_up):
            return "wrong"
        return "late" if self.given_up.get(found) else "lost"

    def _know(self, found: int | None, began: float) -> None:
        """What was found has replaced what was there before; and what should have come long ago does not come."""
        if found != self.value:
            self.pending = {number: write for number, write in self.pending.items() if write.value != found}
        self.value = found
        self.pending = {
            number: write
            for number, write in self.pending.items()
            if write.ended is None or began < write.ended + SETTLED_SECONDS
        }

    def may_be_there(self) -> bool:
        return self.value is not None or any(write.value is not None for write in self.pending.values())

    def may_be_missing(self) -> bool:
        return self.value is None or any(write.value is None for write in self.pending.values())


@dataclass(kw_only=True)
class Book:
    """What the log of one caller comes to."""

    keys: dict[str, Key] = field(default_factory=lambda: defaultdict(Key))
    acknowledged: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    interrupted: int = 0
    longest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By operation, the seconds of its longest call, of those that a kill has ended too."""
    increments: int = 0
    """Of the shared counter, acknowledged."""
    unclear_increments: int = 0
    """Neither acknowledged nor impossible: the call failed, or the answer was that somebody was faster. That is also
    the answer if the reply was lost and somebody has written over it since."""
    _begun: dict[str, Any] | None = None
    _since: float = 0.0

    def add(self, lines: Iterable[Mapping[str, Any]]) -> Book:
        """Read the next lines of the log."""
        for line in lines:
            self._add(line)
        return self

    def _add(self, line: Mapping[str, Any]) -> None:
        match line:
            case {"begin": number, "writes": writes}:
                self._begun, self._since = dict(line), line["at"]
                for key, value in writes.items():
                    self.keys[key].begin(number, value)
            case {"going on": _, "at": at}:
                self._lap(at)
            case {"done": _, "at": at, "read": read}:
                self._done(self._end(at), read, line.get("present"), line.get("won"))
            case {"failed": _, "at": at, "error": error, "named": named, "text": text}:
                self._failed(self._end(at), at, error, named=named, text=text)
            case {"died": at}:
                if self._begun is not None:
                    self._give_up(self._end(at), at, orphaned=True)
            case _:
                raise ValueError(f"not a line of a caller's log: {line}")

    def _end(self, at: float) -> dict[str, Any]:
        self._lap(at)
        begun, self._begun = self._begun, None
        assert begun is not None
        return begun

    def _lap(self, at: float) -> None:
        if self._begun is None:
            raise ValueError("a call has ended that did not begin")
        operation = self._begun["operation"]
        self.longest[operation], self._since = max(self.longest[operation], at - self._since), at

    def _done(
        self,
        begun: Mapping[str, Any],
        read: Mapping[str, int | str | None],
        present: list[str] | None,
        won: bool | None,  # noqa: FBT001  of JSON
    ) -> None:
        self.acknowledged[begun["operation"]] += 1
        for key in begun["writes"]:
            self.keys[key].acknowledge(begun["begin"], begun["at"])
        for key, found in read.items():
            expected = self._expected(key)
            if kind := self.keys[key].read(found, begun["at"]):
                self._fault(kind, f"{begun['operation']} {begun['begin']}: {key} is {found}, not {expected}")
        if present is not None:
            self._compare(begun, set(present))
        if won is not None:
            self.increments += won
            self.unclear_increments += not won

    def _compare(self, begun: Mapping[str, Any], present: set[str]) -> None:
        """The keys that a scan has found, with those that it must and may find."""
        for name in sorted({*self.keys, *present}):
            key = self.keys[name]
            if name in present and not key.may_be_there():
                kind = "late" if any(key.given_up.values()) else "lost"
                text = f"scan {begun['begin']}: {name} was deleted, and is there"
                self._fault(kind if key.given_up else "wrong", text)
            elif name not in present and not key.may_be_missing():
                self._fault("lost", f"scan {begun['begin']}: {name} is missing, not {self._expected(name)}")

    def _failed(self, begun: Mapping[str, Any], at: float, error: str, *, named: bool, text: str) -> None:
        self._give_up(begun, at, orphaned=False)
        if error == INTERRUPTED:
            self.interrupted += 1
            return
        self.errors[error] += 1
        if not named or error not in EXPLAINED:
            self._fault("misnamed" if named else "unnamed", f"{begun['operation']}: {error}: {text}")

    def _give_up(self, begun: Mapping[str, Any], at: float, *, orphaned: bool) -> None:
        for key in begun["writes"]:
            self.keys[key].give_up(begun["begin"], at, orphaned=orphaned)
        self.unclear_increments += begun["operation"] == "compare_and_set"

    def _expected(self, name: str) -> str:
        key = self.keys[name]
        others = [write.value for write in key.pending.values()]
        return f"{key.value} or perhaps {others}" if others else f"{key.value}"

    def _fault(self, kind: str, text: str) -> None:
        self.faults.append(Fault(kind=kind, text=text))


def fault_of_counter(value: int, books: Iterable[Book]) -> Fault | None:
    """Whether a counter that all have incremented by `compare_and_set` has a value that it cannot have."""
    books = list(books)
    least = sum(book.increments for book in books)
    most = least + sum(book.unclear_increments for book in books)
    if least <= value <= most:
        return None
    kind = "lost" if value < least else "wrong"
    return Fault(kind=kind, text=f"the counter is {value}; {least} increments were acknowledged, {most} possible")
