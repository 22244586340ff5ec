"""Where loops stood by releases of before is taken up, whatever became of the rows meanwhile: none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.loops.changing_laws import Laws
from tests.support.loops.changing_sources import CHANGING, SIZE
from tests.support.records import positions
from tests.support.records.positions import CHANGES, KEY, ROWS, source_of, take_up

RECORDS = Path(__file__).parents[1] / "fixtures"
RELEASES = ["records-0.1", "records-0.1-a0002a6"]
EVERY = {(folder, name): left for folder in RELEASES for name, left in positions.every(RECORDS / folder)}

SOURCES = [name for name in CHANGING if name != "list of texts"]
"""That one is known by its last element, which those releases did not keep; the other lists stand for it."""

every_place = pytest.mark.parametrize(("folder", "source"), list(product(RELEASES, SOURCES)))


def places_in(folder: str, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name, and what was left, of all places in this source."""
    for (its_folder, name), left in EVERY.items():
        if its_folder == folder and source_of(name) is CHANGING[source]:
            yield name, left


@every_place
def test_no_row_is_lost_to_a_place_of_before(folder: str, source: str) -> None:
    for (name, left), change in product(places_in(folder, source), CHANGES):
        table, finished, delivered, error = take_up(name, left, change)
        given = {*finished, *delivered}
        laws = Laws(table=table, source=CHANGING[source], error=error, given=given, parallel="ahead" in name)
        try:
            laws.check_failure()
            if error is None:
                laws.check_nothing_skipped([ROWS, len(table.rows)])
        except AssertionError as why:
            raise AssertionError(f"{name}, {change}: {why}") from why


@every_place
def test_no_more_comes_again_than_a_page_where_nothing_has_changed(folder: str, source: str) -> None:
    for name, left in places_in(folder, source):
        _, finished, delivered, error = take_up(name, left, "as it was")
        assert error is None, name
        again = set(finished) & set(delivered)
        is_one_page = CHANGING[source].options or "ahead" in name
        assert len(again) < SIZE if is_one_page else not again, name


def test_places_of_every_source_were_left() -> None:
    """So that a source which leaves nothing is noticed."""
    positions = [left["tasks"][0]["values"][KEY].get("pos") for left in EVERY.values()]
    assert sum(isinstance(position, dict) and "of" in position for position in positions) >= 20
    assert sum("ahead" in left["tasks"][0]["values"][KEY] for left in EVERY.values()) >= 20
    for folder, source in product(RELEASES, SOURCES):
        assert len(list(places_in(folder, source))) >= 3, (folder, source)
