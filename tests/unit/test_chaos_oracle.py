"""Logs with planted faults: the load test of the SQL backend finds each of them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from chaos.oracle import SETTLED_SECONDS, Book, fault_of_counter

AWAY = "StoreUnavailableError"


class Written:
    """A log in which each call takes a second."""

    def __init__(self) -> None:
        self.lines: list[Mapping[str, Any]] = []
        self._number, self._now = 0, 0.0

    def write(self, key: str = "k", *, deleted: bool = False) -> Written:
        """Begin a write; its value is its number."""
        self._number += 1
        return self._line(begin=self._number, operation="set", writes={key: None if deleted else self._number})

    def done(self) -> Written:
        return self._line(done=self._number, read={})

    def failed(self, error: str = AWAY, *, named: bool = True) -> Written:
        return self._line(failed=self._number, error=error, named=named, text="text")

    def died(self) -> Written:
        self._now += 1
        self.lines.append({"died": self._now})
        return self

    def later(self) -> Written:
        self._now += SETTLED_SECONDS
        return self

    def read(self, found: int | str | None, key: str = "k") -> Written:
        return self._question("get", read={key: found})

    def scan(self, *present: str) -> Written:
        return self._question("scan", read={}, present=list(present))

    def increment(self, *, won: bool) -> Written:
        return self._question("compare_and_set", read={}, won=won)

    def _question(self, operation: str, **answer: Any) -> Written:
        self._number += 1
        self._line(begin=self._number, operation=operation, writes={})
        return self._line(done=self._number, **answer)

    def _line(self, **line: Any) -> Written:
        self._now += 1
        self.lines.append({**line, "at": self._now})
        return self

    def faults(self) -> list[str]:
        return [fault.kind for fault in Book().add(self.lines).faults]


def innocent() -> Iterator[tuple[str, Written]]:
    """What may happen."""
    yield "acknowledged, and there", Written().write().done().read(1).scan("k")
    yield "never written, and not there", Written().read(None).scan()
    yield "deleted", Written().write().done().write(deleted=True).done().read(None).scan()
    yield "failed, and done", Written().write().failed().read(1).read(1)
    yield "failed, and not done", Written().write().done().write().failed().read(1).read(1)
    yield "failed, and done between two reads", Written().write().done().write().failed().read(1).read(2)
    yield "killed, and done after the next", Written().write().died().write().done().read(1).read(1)
    yield "interrupted", Written().write().failed("Interrupted").read(1)
    yield "a scan may find a write that failed", Written().write().failed().scan("k").scan()


def guilty() -> Iterator[tuple[str, Written]]:
    """What must not happen; the kind of the fault is the first word."""
    yield "lost: acknowledged, and not there", Written().write().done().read(None)
    yield "lost: the value before is back", Written().write().done().write().done().read(1)
    yield "lost: a scan does not show it", Written().write().done().scan()
    yield "lost: a deleted key is back", Written().write().done().write(deleted=True).done().scan("k")
    yield "lost: gone after it was seen", Written().write().done().write().failed().read(2).read(1)
    yield "torn", Written().write().done().read("torn")
    yield "wrong: another key's", Written().write().done().read("foreign")
    yield "wrong: nobody has written it", Written().write().done().read(7)
    yield "wrong: a key that nobody has written", Written().scan("k")
    yield "late: given up, and done after the next", Written().write().failed().write().done().read(1)
    yield (
        "late: given up, and in a scan after the deletion",
        Written().write().failed().write(deleted=True).done().scan("k"),
    )
    yield "late: a killed process's, after all has settled", Written().write().died().later().write().done().read(1)
    yield "unnamed", Written().write().failed("OperationalError", named=False)
    yield "misnamed", Written().write().failed("StoreRefusedError")


@pytest.mark.parametrize(("what", "log"), innocent())
def test_what_may_happen_is_no_fault(what: str, log: Written) -> None:
    assert log.faults() == [], what


@pytest.mark.parametrize(("what", "log"), guilty())
def test_a_planted_fault_is_found_once_and_by_its_kind(what: str, log: Written) -> None:
    assert log.faults() == [what.partition(":")[0]]


@pytest.mark.parametrize(("value", "kind"), [(1, "lost"), (2, None), (3, None), (4, "wrong")])
def test_a_counter_that_cannot_be_is_found(value: int, kind: str | None) -> None:
    log = Written().increment(won=True).increment(won=True).increment(won=False)
    fault = fault_of_counter(value, [Book().add(log.lines)])
    assert (fault and fault.kind) == kind


def test_the_longest_call_is_the_longest_of_those_that_belong_together() -> None:
    lines: list[Mapping[str, Any]] = [
        {"begin": 1, "operation": "shared", "writes": {}, "at": 10.0},
        {"going on": 1, "at": 13.0},
        {"done": 1, "read": {}, "at": 15.0},
    ]
    assert Book().add(lines).longest == {"shared": 3.0}
