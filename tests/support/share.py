"""A part of the tests, for a run with little time: `pytest --share 2/3` plays the second of three shares.

Every test function is in every share. Of one with many cases, a share has every third case. Tests on a real Airflow are
shared by their Airflow instead, which takes longer to start than most of its tests: all of them are in one share. So
three runs with a share each play everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from tests.support.airflow.stage_groups import AIRFLOWS, stage_of


@dataclass(frozen=True)
class Share:
    """The share `number`, from 1 to `of`."""

    number: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> Share:
        """Read `2/3`.

        Raises:
            ValueError: it is no such text.
        """
        number, _, of = text.partition("/")
        share = cls(int(number), int(of))
        if not 1 <= share.number <= share.of:
            raise ValueError(f"{text} is no share: the first of three is 1/3, the last 3/3")
        return share

    def split(self, items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
        """The tests of this share, and the others."""
        items = [*items]
        cases = Counter(map(_function, items))
        seen: Counter[object] = Counter()
        airflows: dict[str, int] = {}
        mine: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            function = _function(item)
            if item.path.parent == AIRFLOWS:
                turn = airflows.setdefault(stage_of(item.path), len(airflows))
            elif cases[function] < self.of:
                turn = self.number - 1
            else:
                turn = seen[function]
                seen[function] += 1
            (mine if turn % self.of == self.number - 1 else others).append(item)
        return mine, others


def _function(item: pytest.Item) -> tuple[object, str]:
    return item.path, getattr(item, "originalname", item.name)
