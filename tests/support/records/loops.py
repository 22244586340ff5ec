"""Loops that one attempt leaves and the next one continues; see `scene`. Every element must be delivered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from uuid import UUID

from airflow_resume import checkpoint
from airflow_resume.loops import (
    Batches,
    CursorToken,
    Files,
    Keyset,
    Offset,
    Page,
    PageNumber,
    Skip,
    TimeSlice,
    TimeSlices,
)
from tests.support.records.scene import Scene

ITEMS = list(range(10, 17))
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

_clock = {"hour": 5}
"""It is later when the loop is taken up."""

Play = Callable[[Scene, "LoopScenario", "int | None"], list[Any]]


@dataclass(kw_only=True)
class LoopScenario:
    """A loop that is left in the body of an element, and taken up.

    Args:
        source: makes it.
        dies_in: the number of the element in whose body the attempt dies, from 0; None: it goes to its end.
        elements: all there are, as JSON.
        play: goes through the loop, and dies; gives what was delivered. By default `in_a_row`.
        page: of the element that it dies in, those in front. They come again where the record does not prove that they
            are the same ones, as those of 0.1 do not.
        gives_later: what must be delivered to the attempt that takes it up, of all elements and those done.
    """

    source: Callable[[], Any]
    elements: list[Any]
    dies_in: int | None = 2
    options: dict[str, Any] = field(default_factory=dict)
    play: Play | None = None
    page: list[Any] = field(default_factory=list)
    gives_later: Callable[[list[Any], list[Any]], list[Any]] = lambda elements, done: [
        each for each in elements if each not in done
    ]

    def leave(self) -> Scene:
        """Run it until the attempt dies."""
        scene = Scene()
        _clock["hour"] = 5
        with scene.dying():
            (self.play or in_a_row)(scene, self, self.dies_in)
        return scene

    def take_up(self, scene: Scene) -> dict[str, Any]:
        """What the next attempt delivers, as JSON; `state` and `skipped` are those at its end."""
        scene.retry()
        _clock["hour"] = 9
        scene.notes.pop("ended", None)
        try:
            delivered: Any = (self.play or in_a_row)(scene, self, None)
        except Exception as error:  # noqa: BLE001  by its name
            delivered = type(error).__name__
        return {"delivered": delivered, **scene.notes.get("ended", {})}

    def expected(self, left: dict[str, Any]) -> dict[str, Any]:
        """What must be delivered: all that is not done."""
        done = left["notes"]["done"]
        again = self.page if self.page and not is_proven(left) else []
        if again:
            summed = {"state": {"done": [*done, *again, *self.rest(done)]}}
            left, done = {"notes": {"must_end": summed}}, done[: -len(again)]
        ended = {"count": len(self.elements)} if self.play is not nested else {}
        return {"delivered": self.gives_later(self.elements, done), **ended, **left["notes"].get("must_end", {})}

    def rest(self, done: list[Any]) -> list[Any]:
        """What is not done."""
        return self.gives_later(self.elements, done)

    def loop(self, scene: Scene) -> Any:
        return checkpoint(self.source(), name="loop", durability="sync", context=scene.context, **self.options)


def is_proven(left: dict[str, Any]) -> bool:
    """Whether the position within a page says which items were done."""
    (record,) = (record for task in left["tasks"] for record in task["values"].values())
    return "print" in record["pos"]


def in_a_row(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """`for`, with a state that sums up what was done."""
    delivered: list[Any] = []
    done = scene.notes.setdefault("done", [])
    with scenario.loop(scene) as loop:
        for element in loop:
            if len(delivered) == dies_in:
                scene.notes["must_end"] = {"state": {"done": [_plain(each) for each in scenario.elements]}}
                scene.die()
            delivered.append(_plain(element))
            loop.state.setdefault("done", []).append(_plain(element))
            done.append(_plain(element))
        scene.notes["ended"] = {"state": dict(loop.state), "count": loop.count}
        scene.notes.setdefault("must_end", {"state": dict(loop.state)})
    return delivered


def without_state(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """A plain `for`."""
    delivered: list[Any] = []
    done = scene.notes.setdefault("done", [])
    loop = scenario.loop(scene)
    for element in loop:
        if len(delivered) == dies_in:
            scene.die()
        delivered.append(_plain(element))
        done.append(_plain(element))
    scene.notes["ended"] = {"count": loop.count}
    return delivered


def left_by_break(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """Left by a `break` in the body of an element, which is therefore not done."""
    delivered: list[Any] = []
    done = scene.notes.setdefault("done", [])
    with scenario.loop(scene) as loop:
        for element in loop:
            if len(delivered) == dies_in:
                break
            delivered.append(_plain(element))
            done.append(_plain(element))
        scene.notes["ended"] = {"count": loop.count}
    return delivered


def skipping(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """The second element of all is passed over."""
    delivered: list[Any] = []
    done = scene.notes.setdefault("done", [])
    with scenario.loop(scene) as loop:
        for element in loop:
            if len(delivered) == dies_in:
                scene.notes["must_end"] = {"skipped": 1}
                scene.die()
            delivered.append(_plain(element))
            done.append(_plain(element))
            with loop.skipping():
                if element == ITEMS[1]:
                    raise ValueError(element)
        scene.notes["ended"] = {"skipped": loop.skipped, "count": loop.count}
    return delivered


def acked_by_hand(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """Every second element acks; the one in hand at the death, and the one before it, are not acked."""
    delivered: list[Any] = []
    done = scene.notes.setdefault("done", [])
    with scenario.loop(scene) as loop:
        for element in loop:
            if len(delivered) == dies_in:
                scene.die()
            delivered.append(_plain(element))
            if len(delivered) % 2 == 0:
                loop.ack()
                done.extend(delivered[-2:])
        loop.ack()
        scene.notes["ended"] = {"count": loop.count}
    return delivered


def with_holes(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """A map whose first element takes longer than the others."""
    if dies_in is None:
        loop = scenario.loop(scene)
        found = sorted(loop.map(_plain, workers=2))
        scene.notes["ended"] = {"count": loop.count}
        return found
    done = scene.notes.setdefault("done", [])
    may_end = threading.Event()

    def work(element: Any) -> Any:
        if _plain(element) == scenario.elements[0]:
            may_end.wait(10)
        return _plain(element)

    try:
        for result in scenario.loop(scene).map(work, workers=2):
            if len(done) == dies_in:
                scene.die()
            done.append(result)
    finally:
        may_end.set()
    return list(done)


def nested(scene: Scene, scenario: LoopScenario, dies_in: int | None) -> list[Any]:
    """A loop in a loop; elements are pairs."""
    delivered: list[Any] = []
    done = scene.notes.setdefault("done", [])
    outer = scenario.loop(scene)
    for region in outer:
        inner = checkpoint(Batches([1, 2, 3]), name="inner", within=outer)
        for number in inner:
            if len(delivered) == dies_in:
                scene.die()
            delivered.append([region, number])
            done.append([region, number])
    scene.notes["ended"] = {}
    return delivered


def _plain(element: Any) -> Any:
    match element:
        case Page():
            return [_plain(item) for item in element.items]
        case TimeSlice():
            return [element.start.isoformat(), element.end.isoformat()]
        case list():
            return [_plain(item) for item in element]
        case dict():
            return {name: _plain(item) for name, item in element.items()}
        case UUID():
            return str(element)
    return element


class Numbers:
    """An iterable that saves its own state."""

    def __init__(self) -> None:
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "when": START}

    def load_state_dict(self, state: Any) -> None:
        if state["when"] != START:
            raise ValueError(state)
        self.at = state["at"]

    def __iter__(self) -> Iterator[int]:
        while self.at < len(ITEMS):
            self.at += 1
            yield ITEMS[self.at - 1]


def resuming(position: Any) -> Iterator[tuple[int, Any]]:
    for place in range(position or 0, len(ITEMS)):
        yield ITEMS[place], place + 1


def _table_after(after: Any, limit: int) -> list[dict[str, Any]]:
    rows = [{"id": UUID(int=item), "n": item} for item in ITEMS]
    return [row for row in rows if after is None or (row["id"], row["n"]) > after][:limit]


def _numbers_after(after: Any, limit: int) -> list[dict[str, int]]:
    return [{"n": item} for item in ITEMS if after is None or item > after][:limit]


PAGES = [ITEMS[:3], ITEMS[3:5], ITEMS[5:]]


def _page_of_token(token: Any) -> Page[int]:
    place = 0 if token is None else token["p"]
    return Page(PAGES[place], {"p": place + 1} if place + 1 < len(PAGES) else None)


def _page_of_number(number: int) -> Page[int]:
    return Page(PAGES[number - 1], pages=len(PAGES))


def _page_of_offset(offset: int, limit: int) -> Page[int]:
    return Page(ITEMS[offset : offset + limit], total=len(ITEMS))


def _hours(*bounds: int) -> list[list[str]]:
    times = [(START + timedelta(hours=hour)).isoformat() for hour in bounds]
    return [list(pair) for pair in pairwise(times)]


BY_TWO = [[{"n": item} for item in ITEMS[start : start + 2]] for start in range(0, 8, 2)]
UUIDS_BY_TWO = [[{"id": str(UUID(int=row["n"])), **row} for row in rows] for rows in BY_TWO]

NAMES = ["a.csv", "b.csv", "c.csv", "d.csv"]

SCENARIOS: dict[str, LoopScenario] = {
    "list": LoopScenario(source=lambda: ITEMS, elements=ITEMS),
    "list, plain for": LoopScenario(source=lambda: ITEMS, elements=ITEMS, play=without_state),
    "generator": LoopScenario(source=lambda: iter(ITEMS), elements=ITEMS, play=without_state),
    "list, left by break": LoopScenario(source=lambda: ITEMS, elements=ITEMS, play=left_by_break),
    "list, acked by hand": LoopScenario(
        source=lambda: ITEMS, elements=ITEMS, play=acked_by_hand, dies_in=3, options={"ack": "manual"}
    ),
    "list, at most once": LoopScenario(
        source=lambda: ITEMS,
        elements=ITEMS,
        play=without_state,
        options={"delivery": "at_most_once"},
        # The one in hand at the death is not delivered again: that is what was asked for.
        gives_later=lambda elements, done: elements[len(done) + 1 :],
    ),
    "list, done": LoopScenario(source=lambda: ITEMS, elements=ITEMS, dies_in=None),
    "list, not begun": LoopScenario(source=lambda: ITEMS, elements=ITEMS, dies_in=0, play=without_state),
    "list, skipping": LoopScenario(
        source=lambda: ITEMS, elements=ITEMS, play=skipping, options={"skip": Skip(on=(ValueError,))}, dies_in=3
    ),
    "list, fingerprint": LoopScenario(
        source=lambda: ITEMS, elements=ITEMS, options={"fingerprint": {"bucket": "b"}, "on_change": "fail"}
    ),
    "lists of a size": LoopScenario(
        source=lambda: Batches(ITEMS, size=3), elements=[ITEMS[:3], ITEMS[3:6], ITEMS[6:]], dies_in=1
    ),
    "map with holes": LoopScenario(source=lambda: ITEMS, elements=ITEMS, play=with_holes, dies_in=3),
    "map of tokens with holes": LoopScenario(
        source=lambda: CursorToken(_page_of_token), elements=PAGES, play=with_holes, dies_in=1
    ),
    "keyset": LoopScenario(
        source=lambda: Keyset(_numbers_after, key="n", limit=2), elements=BY_TWO, play=without_state
    ),
    "keyset of typed keys": LoopScenario(
        source=lambda: Keyset(_table_after, key=("id", "n"), limit=2),
        elements=UUIDS_BY_TWO,
        play=without_state,
    ),
    "token": LoopScenario(source=lambda: CursorToken(_page_of_token), elements=PAGES),
    "page number": LoopScenario(source=lambda: PageNumber(_page_of_number), elements=PAGES),
    "offset": LoopScenario(
        source=lambda: Offset(_page_of_offset, limit=3), elements=[ITEMS[:3], ITEMS[3:6], ITEMS[6:]]
    ),
    "each of pages": LoopScenario(
        source=lambda: CursorToken(_page_of_token), elements=ITEMS, options={"each": True}, dies_in=4, page=[ITEMS[3]]
    ),
    "files": LoopScenario(source=lambda: Files(NAMES), elements=NAMES),
    "files with an identity": LoopScenario(
        source=lambda: Files(NAMES, identity=lambda name: {"name": name, "etag": len(name)}), elements=NAMES
    ),
    "time slices": LoopScenario(
        source=lambda: TimeSlices(START, START + timedelta(hours=5), timedelta(hours=2)), elements=_hours(0, 2, 4, 5)
    ),
    "time slices up to now": LoopScenario(
        source=lambda: TimeSlices(START, step=timedelta(hours=2), now=lambda: START + timedelta(hours=_clock["hour"])),
        elements=_hours(0, 2, 4, 5),
        play=without_state,
    ),
    "stateful": LoopScenario(source=Numbers, elements=ITEMS),
    "resume function": LoopScenario(source=lambda: resuming, elements=ITEMS),
    "nested": LoopScenario(
        source=lambda: ["eu", "us"],
        elements=[[region, number] for region in ("eu", "us") for number in (1, 2, 3)],
        play=nested,
        dies_in=4,
    ),
}
