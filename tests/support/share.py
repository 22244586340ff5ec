"""A part of the tests, for a run with little time: `pytest --share 2/3` plays the second of three shares.

Which share a test is in depends on its name. Two kinds of tests are shared otherwise:

- of `tests/unit`, every test function is in every share; of one with many cases, a share has every third case.
- tests on a real Airflow, which takes longer to start than most of its tests, are in the share of their Airflow. The
  Airflows are dealt out, those with the most tests first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest

from tests.support.airflow.stage_groups import stage_of

TESTS = Path(__file__).parents[1]
AIRFLOW, UNIT = TESTS / "airflow", TESTS / "unit"


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
        airflows = _airflows(items)
        seen: Counter[object] = Counter()
        mine: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            function = _function(item)
            seen[function] += 1
            if UNIT in item.path.parents:
                is_mine = cases[function] < self.of or self._has(seen[function])
            elif item.path.parent == AIRFLOW:
                is_mine = self._has(airflows[stage_of(item.path)])
            else:
                is_mine = self._has(crc32(item.nodeid.encode()))
            (mine if is_mine else others).append(item)
        return mine, others

    def _has(self, number: int) -> bool:
        return number % self.of == self.number - 1


def _airflows(items: Iterable[pytest.Item]) -> dict[str, int]:
    """Numbers of the Airflows of `tests/airflow`, by the size of the files with their tests."""
    sizes: Counter[str] = Counter()
    for file in dict.fromkeys(item.path for item in items if item.path.parent == AIRFLOW):
        sizes[stage_of(file)] += file.stat().st_size
    return {stage: number for number, (stage, _) in enumerate(sizes.most_common())}


def _function(item: pytest.Item) -> tuple[object, str]:
    return item.path, getattr(item, "originalname", item.name)
