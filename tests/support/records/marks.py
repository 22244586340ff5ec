"""Watermarks with runs that one attempt leaves and the next continues; see `scene`. A mark never skips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from airflow_resume import watermark
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Cursor, Watermark, Window, windows_from_events
from tests.support.records.scene import LOADED, Scene

Told = list[Any]
"""What a run tells of: one line for each window, as JSON."""


@dataclass(kw_only=True)
class MarkScenario:
    """Runs that were made, the last of which may have died, and what later ones tell.

    Args:
        leave_in: plays in a scene up to the death.
        take_up_in: goes on, and tells what it saw, line by line.
        tells: what that must be.
        of_0_1: the same by version 0.1, which does not know where windows are kept now: it begins at the mark anew, so
            that rows are read again, and none is skipped. None: as here.
    """

    leave_in: Callable[[Scene], None]
    take_up_in: Callable[[Scene, Told], None]
    tells: Told
    of_0_1: Told | None = None

    def leave(self) -> Scene:
        """Run it until the attempt dies."""
        scene = Scene()
        with scene.dying():
            self.leave_in(scene)
        return scene

    def take_up(self, scene: Scene) -> dict[str, Any]:
        """What the next attempts report."""
        told: Told = []
        try:
            self.take_up_in(scene, told)
        except Exception as error:  # noqa: BLE001  by its name
            told.append(type(error).__name__)
        return {"tells": told}

    def expected(self) -> dict[str, Any]:
        return {"tells": self.tells}

    def expected_of_0_1(self) -> dict[str, Any]:
        return {"tells": self.tells if self.of_0_1 is None else self.of_0_1}


def _load(attempt: TaskAttempt, mark: Watermark[Any], body: Callable[[Window[Any]], Any], **options: Any) -> None:
    with mark.open(attempt.context, **options) as window:
        body(window)
    attempt.succeed()


def _told(window: Window[Any]) -> list[str]:
    """Its bounds, and whether an earlier attempt began it."""
    end = str(window.end) if window.has_end else "open"
    return [str(window.start), end, *[name for name in ("is_retry", "is_replay", "is_reset") if getattr(window, name)]]


# --- every type of cursor, the body says how far --------------------------------------------------------------

CURSORS: dict[str, tuple[Any, list[Any]]] = {
    "int": (Cursor.int(), [0, 2**53 + 1, 10**20]),
    "decimal": (Cursor.decimal(), [Decimal(0), Decimal("0.1"), Decimal("123456789012345678901234.5")]),
    "datetime": (
        Cursor.datetime("Europe/Berlin"),
        [datetime(2026, 1, day, 0, 0, 0, day, tzinfo=timezone.utc) for day in (1, 2, 3)],
    ),
    "naive": (Cursor.datetime(tz=None), [datetime(2026, 1, day) for day in (1, 2, 3)]),  # noqa: DTZ001
    "date": (Cursor.date(), [date(2026, 1, day) for day in (1, 2, 3)]),
    "text": (Cursor.text(), ["a", "b é", "c\U0001f600"]),
    "keyset": (
        Cursor.keyset(Cursor.datetime(), Cursor.int()),
        [(datetime(2026, 1, day, tzinfo=timezone.utc), day) for day in (1, 2, 3)],
    ),
    "token": (Cursor.token(), ["t0", {"t": [1]}, "t2"]),
}
CLOCKS: dict[str, dict[str, Any]] = {
    "datetime": {"now": lambda: datetime(2026, 2, 1, tzinfo=timezone.utc), "delay": timedelta(0)},
    "date": {"now": lambda: date(2026, 2, 1)},
}


def _of_cursor(kind: str) -> MarkScenario:
    cursor, (first, second, third) = CURSORS[kind]

    def made() -> Watermark[Any]:
        return watermark(LOADED, initial=first, cursor=cursor, advance="explicit", **CLOCKS.get(kind, {}))

    def leave(scene: Scene) -> None:
        _load(scene.attempt, made(), lambda window: window.advance(second))
        scene.attempt = scene.attempt.next_run("run-2")
        with made().open(scene.context):
            scene.die()

    def take_up(scene: Scene, told: Told) -> None:
        scene.attempt = scene.task(run_id="run-2").retry()
        with made().open(scene.context) as window:
            told.append(_told(window))
            window.advance(third)
        with made().open(scene.attempt.next_run("run-3").context) as window:
            told.append(_told(window))
            window.sampled()

    shown = [str(cursor.present(cursor.parse(value, what="a value"))) for value in (second, third)]
    end = str(cursor.present(CLOCKS[kind]["now"]())) if kind in CLOCKS else "open"
    return MarkScenario(
        leave_in=leave,
        take_up_in=take_up,
        tells=[[shown[0], end, "is_retry"], [shown[1], end]],
        of_0_1=[[shown[0], end], [shown[1], end]],
    )


# --- whole numbers, with a clock ------------------------------------------------------------------------------


def _numbers(now: int | None = None, **options: Any) -> Watermark[Any]:
    return watermark(LOADED, **{"initial": 0, "now": None if now is None else lambda: now, **options})


def _rows(*values: int) -> list[dict[str, Any]]:
    return [{"n": value, "id": f"r{place}"} for place, value in enumerate(values)]


def _leave_pending(scene: Scene) -> None:
    with _numbers(10).open(scene.context):
        scene.die()


def _take_up_pending(scene: Scene, told: Told) -> None:
    _load(scene.retry(), _numbers(20), lambda window: told.append(_told(window)))
    _load(scene.attempt.next_run("run-2"), _numbers(30), lambda window: told.append(_told(window)))


def _leave_committed(scene: Scene) -> None:
    _load(scene.attempt, _numbers(10), lambda _: None)


def _replay(scene: Scene, told: Told) -> None:
    _load(scene.clear(), _numbers(20), lambda window: told.append(_told(window)))
    _load(scene.attempt.next_run("run-2"), _numbers(30), lambda window: told.append(_told(window)))


def _leave_island(scene: Scene) -> None:
    _load(scene.attempt, _numbers(10), lambda _: None)
    beyond = scene.attempt.next_run("run-2")
    beyond.context["dag_run"].conf = {"watermark": {"watermark": {"from": 15, "to": 20, "commit": True}}}
    _load(beyond, _numbers(20), lambda _: None)


def _close_gap(scene: Scene, told: Told) -> None:
    third = scene.task(run_id="run-3")
    _load(third, _numbers(16), lambda window: told.append(_told(window)))
    _load(third.next_run("run-4"), _numbers(30), lambda window: told.append(_told(window)))


def _leave_ties(scene: Scene) -> None:
    _load(
        scene.attempt,
        _numbers(),
        lambda window: list(window.track(_rows(3, 5), "n", unique="id")),
    )


def _pass_over_ties(scene: Scene, told: Told) -> None:
    second = scene.task(run_id="run-2")
    rows = [{"n": 5, "id": "r1"}, {"n": 5, "id": "new"}, {"n": 6, "id": "r6"}]
    _load(
        second,
        _numbers(),
        lambda window: told.append([row["id"] for row in window.track(rows, "n", unique="id")]),
    )


def _leave_history(scene: Scene) -> None:
    attempt = scene.attempt
    for number in range(1, 13):
        _load(attempt, _numbers(number), lambda _: None)
        attempt = attempt.next_run(f"run-{number + 1}")


def _go_on_from_history(scene: Scene, told: Told) -> None:
    attempt = scene.task(run_id="run-20")
    _load(attempt, _numbers(13), lambda window: told.append(_told(window)))
    record: Any = attempt.asset_stores[LOADED].get("resume.watermark.watermark")
    told.append([move["to"] for move in record["history"]])


PARTITIONS: list[Any] = ["eu", {"b": 1, "a": [None]}, 7, "x" * 300]


def _leave_partitions(scene: Scene) -> None:
    for place, partition in enumerate(PARTITIONS):
        _load(scene.attempt, _numbers(10 + place), lambda _: None, partition=partition)


def _go_on_in_partitions(scene: Scene, told: Told) -> None:
    second = scene.task(run_id="run-2")
    for partition in PARTITIONS:
        _load(second, _numbers(20), lambda window: told.append(_told(window)), partition=partition)


def _leave_staged(scene: Scene) -> None:
    scene.notes["token"] = _numbers(10).begin(scene.context).stage()


def _commit_staged(scene: Scene, told: Told) -> None:
    token = scene.notes["token"]
    told.append(_numbers(20).commit(scene.task(task_id="commit").context, token).value)
    _load(scene.task(run_id="run-2"), _numbers(30), lambda window: told.append(_told(window)))


def _leave_slices(scene: Scene) -> None:
    with _numbers(10).open(scene.context) as window:
        for piece in window.split(3):
            if piece.start == 6:
                scene.die()


def _load_slices(scene: Scene, told: Told) -> None:
    _load(scene.retry(), _numbers(20), lambda window: told.extend(_told(piece)[:2] for piece in window.split(3)))


def _leave_reset(scene: Scene) -> None:
    _load(scene.attempt, _numbers(10), lambda _: None)
    _numbers(10).reset(scene.attempt.next_run("run-2").context, 4)


def _load_after_reset(scene: Scene, told: Told) -> None:
    third = scene.task(run_id="run-3")
    _load(third, _numbers(20), lambda window: told.append(_told(window)))
    _load(third.next_run("run-4"), _numbers(30), lambda window: told.append(_told(window)))


def _leave_two_runs(scene: Scene) -> None:
    """The one that began first is slow."""
    slow = scene.attempt
    with _numbers(10).open(slow.context):
        second = slow.next_run("run-2")
        _load(second, _numbers(12), lambda _: None)
        scene.die()


def _end_slow_run(scene: Scene, told: Told) -> None:
    _load(scene.retry(), _numbers(20), lambda window: told.append(_told(window)))
    _load(scene.task(run_id="run-3"), _numbers(30), lambda window: told.append(_told(window)))


def _leave_lost(scene: Scene) -> None:
    _load(scene.attempt, _numbers(10), lambda _: None)
    scene.attempt.asset_stores[LOADED].clear()


def _notice_loss(scene: Scene, told: Told) -> None:
    try:
        _numbers(20).begin(scene.task(run_id="run-2").context)
    except Exception as error:  # noqa: BLE001  by its name
        told.append(type(error).__name__)
    _load(scene.task(run_id="run-3"), _numbers(20, on_missing="recover"), lambda window: told.append(_told(window)))


def _consume(scene: Scene, told: Told) -> None:
    consumer = scene.task(task_id="consumer")
    context = {**consumer.context, "triggering_asset_events": {LOADED: [_as_triggering(e) for e in scene.world.events]}}
    told.extend(
        [str(window.start), str(window.end), str(window.at), window.outcome.value, window.partition, window.run_id]
        for window in windows_from_events(context, LOADED)
    )


def _as_triggering(event: Any) -> Any:
    return SimpleNamespace(
        extra=event.extra, source_run_id=event.source_run_id, source_map_index=event.source_map_index
    )


def _leave_journal(scene: Scene) -> None:
    _leave_island(scene)
    mark = watermark(LOADED, initial="2026-01-01", advance="explicit", name="days", **CLOCKS["date"])
    _load(scene.task(run_id="run-3"), mark, lambda window: window.advance("2026-01-05"), partition="eu")


SCENARIOS: dict[str, MarkScenario] = {
    **{f"cursor {kind}": _of_cursor(kind) for kind in CURSORS},
    "pending": MarkScenario(
        leave_in=_leave_pending,
        take_up_in=_take_up_pending,
        tells=[["0", "10", "is_retry"], ["10", "30"]],
        of_0_1=[["0", "20"], ["20", "30"]],
    ),
    "committed, then cleared": MarkScenario(
        leave_in=_leave_committed,
        take_up_in=_replay,
        tells=[["0", "10", "is_replay"], ["10", "30"]],
        of_0_1=[["10", "20"], ["20", "30"]],
    ),
    "island": MarkScenario(leave_in=_leave_island, take_up_in=_close_gap, tells=[["10", "16"], ["20", "30"]]),
    "ties": MarkScenario(
        leave_in=_leave_ties,
        take_up_in=_pass_over_ties,
        tells=[["new", "r6"]],
        of_0_1=[["r1", "new", "r6"]],  # ties are longer now, so it reads their rows again, once
    ),
    "history": MarkScenario(
        leave_in=_leave_history,
        take_up_in=_go_on_from_history,
        tells=[["12", "13"], [str(number) for number in range(4, 14)]],
    ),
    "partitions": MarkScenario(
        leave_in=_leave_partitions,
        take_up_in=_go_on_in_partitions,
        tells=[[str(10 + place), "20"] for place in range(len(PARTITIONS))],
        of_0_1=[["0", "20"] for _ in PARTITIONS],
    ),
    "staged": MarkScenario(
        leave_in=_leave_staged,
        take_up_in=_commit_staged,
        tells=["advanced", ["10", "30"]],
        of_0_1=["StageTokenError"],
    ),
    "slices": MarkScenario(
        leave_in=_leave_slices,
        take_up_in=_load_slices,
        tells=[["6", "9"], ["9", "10"]],
        of_0_1=[["6", "9"], ["9", "12"], ["12", "15"], ["15", "18"], ["18", "20"]],
    ),
    "reset": MarkScenario(
        leave_in=_leave_reset, take_up_in=_load_after_reset, tells=[["4", "20", "is_reset"], ["20", "30"]]
    ),
    "two runs": MarkScenario(
        leave_in=_leave_two_runs,
        take_up_in=_end_slow_run,
        tells=[["0", "10", "is_retry"], ["12", "30"]],
        of_0_1=[["12", "20"], ["20", "30"]],
    ),
    "lost": MarkScenario(leave_in=_leave_lost, take_up_in=_notice_loss, tells=["WatermarkLostError", ["10", "20"]]),
    "journal": MarkScenario(
        leave_in=_leave_journal,
        take_up_in=_consume,
        tells=[
            ["0", "10", "10", "advanced", None, "run-1"],
            ["15", "20", "10", "gap", None, "run-2"],
            ["2026-01-01", "2026-02-01", "2026-01-05", "advanced", "eu", "run-3"],
        ],
        of_0_1=[
            ["0", "10", "10", "advanced", None, "run-1"],
            ["15", "20", "10", "gap", None, "run-2"],
            ["2026-01-01", "2026-01-05", "2026-01-05", "advanced", "eu", "run-3"],
        ],
    ),
}
