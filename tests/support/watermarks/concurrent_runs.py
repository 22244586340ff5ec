"""Two runs of one watermark at the same time, driven step by step, and what they have loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_resume.errors import SupersededError, WatermarkConflictError, WatermarkError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Cursor, Outcome, Window, windows_from_events
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, numbers

Load = Callable[[Window[Any], "Pair"], set[int]]


def whole(window: Window[Any], pair: Pair) -> set[int]:
    """All numbers of the window."""
    return set() if window.empty else set(range(window.start, window.end))


def tracked(window: Window[Any], pair: Pair) -> set[int]:
    """All numbers that there are from the start on, once."""
    given = ({"n": number} for number in range(window.start, pair.clock.number))
    return {row["n"] for row in window.track(given, "n", unique=True)}


def told(window: Window[Any], pair: Pair) -> set[int]:
    """A few numbers."""
    upto = min(window.start + 3, pair.clock.number)
    window.advance(upto)
    return set(range(window.start, upto))


def sliced(window: Window[Any], pair: Pair) -> set[int]:
    """Slice by slice, each of which counts by itself."""
    for piece in window.split(2):
        pair.loaded.update(range(piece.start, piece.end))
    return set()


def by_token(window: Window[Any], pair: Pair) -> set[int]:
    """What has changed since the token."""
    since, upto = window.start["upto"], pair.clock.number
    window.advance({"upto": upto})
    return set(range(since, upto))


MODES: dict[str, tuple[Load, dict[str, Any]]] = {
    "window": (whole, {}),
    "window, lookback": (whole, {"lookback": 2}),
    "window, max_span": (whole, {"max_span": 3}),
    "observed": (tracked, {"now": None}),
    "explicit": (told, {"now": None, "advance": "explicit"}),
    "split": (sliced, {}),
    "token": (by_token, {"now": None, "initial": {"upto": 0}, "cursor": Cursor.token()}),
}


@dataclass
class Pair:
    """Two runs, and what they have loaded: the numbers whose bodies have ended."""

    load: Load
    options: dict[str, Any] = field(default_factory=dict)
    clock: Counter = field(default_factory=lambda: Counter(4))
    world: World = field(default_factory=World)
    loaded: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.mark = numbers(**{"now": self.clock, **self.options})

    def attempt(self, name: str) -> TaskAttempt:
        return task_context(assets=[NUMBERS], world=self.world, run_id=name)

    @property
    def stored(self) -> Any:
        return self.world.assets["numbers"].rows.values_by_key().get(MARK)

    def run(self, attempt: TaskAttempt) -> None:
        """Until it succeeds."""
        for _ in range(8):
            try:
                with self.mark.open(attempt.context) as window:
                    self.loaded |= self.load(window, self)
            except WatermarkConflictError:
                attempt = attempt.retry()
            except WatermarkError as error:
                assert "kept writing" in str(error), repr(error)
                attempt = attempt.retry()
            else:
                attempt.succeed()
                return
        raise AssertionError("no attempt succeeded")

    def finish(self, upto: int = 12) -> None:
        """Run more runs one after the other; then everything must be loaded."""
        self.clock.number = upto
        for number in range(upto):
            self.run(self.attempt(f"later {number}"))
        stored = self.stored
        assert stored["at"] == ({"upto": upto} if stored["type"] == "token" else self.at_the_end(upto)), stored
        missed = set(range(upto)) - self.loaded
        assert not missed, f"never loaded: {missed}"
        untold = set(range(upto)) - self.told
        assert not untold, f"no consumer was told of {untold}"

    @property
    def told(self) -> set[int]:
        """What events tell of as loaded for the first time."""
        found: set[int] = set()
        for event in self.world.events:
            for window in windows_from_events({"triggering_asset_events": {NUMBERS: [event]}}, NUMBERS):
                if window.outcome is not Outcome.NOOP:
                    start, end = (
                        value["upto"] if isinstance(value, dict) else value for value in (window.start, window.end)
                    )
                    found.update(range(start + (window.bounds[0] == "("), end + (window.bounds[1] == "]")))
        return found

    def at_the_end(self, upto: int) -> str:
        return str(upto - 1 if self.load is tracked else upto)


def _number(value: Any) -> int:
    return int(value["upto"] if isinstance(value, dict) else value)


class Duet:
    """Two runs that are driven step by step."""

    def __init__(self, mode: str) -> None:
        self.pair = Pair(*MODES[mode])
        self.attempts = {"b": self.pair.attempt("one"), "B": self.pair.attempt("two")}
        self.windows: dict[str, Window[Any]] = {}
        self.outcomes: list[str] = []
        self.old: tuple[TaskAttempt, Window[Any]] | None = None

    def play(self, step: str) -> None:
        run = "B" if step.isupper() else "b"
        steps: dict[str, Callable[[], object]] = {
            "b": lambda: self.begin(run),
            "w": lambda: self.work(run),
            "c": lambda: self.commit(run),
            "f": lambda: self.again(self.attempts["b"].retry()),
            "x": lambda: self.again(self.attempts["b"].clear()),
            "z": self.replace,
            "r": lambda: self.attempts["B"].asset_stores[NUMBERS].set(MARK, "0"),
            "+": self.later,
        }
        steps[step.lower()]()

    def begin(self, run: str) -> None:
        self.windows[run] = self.pair.mark.begin(self.attempts[run].context)

    def work(self, run: str) -> None:
        self.pair.loaded |= self.pair.load(self.windows[run], self.pair)

    def commit(self, run: str) -> None:
        attempt, window = self.attempts[run], self.windows[run]
        if run == "b" and self.old is not None:
            (attempt, window), self.old = self.old, None
        try:
            self.outcomes.append(self.pair.mark.commit(attempt.context, window).value)
        except SupersededError:
            self.outcomes.append("superseded")
        else:
            attempt.succeed()

    def again(self, attempt: TaskAttempt) -> None:
        self.attempts["b"] = attempt
        self.begin("b")

    def replace(self) -> None:
        """The next `c` is that of the replaced attempt."""
        self.old = self.attempts["b"], self.windows["b"]
        self.again(self.attempts["b"].supersede())

    def later(self) -> None:
        self.pair.clock.number += 4
