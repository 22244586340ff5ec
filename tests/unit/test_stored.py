"""Records are changed by name and with a check: a misspelt or wrongly typed field is refused, and a contradiction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import airflow_resume
from airflow_resume.attempt import Claim, Epoch
from airflow_resume.errors import InvalidValueError
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.record import JobRecord, JobRecordChanges, Waiting, WaitingChanges
from airflow_resume.loops.loop_record import (
    Ahead,
    Level,
    LevelChanges,
    LoopRecord,
    LoopRecordChanges,
    Opened,
    OpenedChanges,
)
from airflow_resume.record import ByHand, ByHandChanges, Record
from airflow_resume.stored import StoredModel
from airflow_resume.watermarks.marks.mark_record import (
    MarkChanges,
    MarkRecord,
    WindowChanges,
    WindowRecord,
    WindowState,
)
from airflow_resume.watermarks.marks.outbox import OutboxEntry, OutboxEntryChanges
from airflow_resume.watermarks.windows.staged import StageToken, StageTokenChanges

CHANGES: dict[type[StoredModel], Any] = {
    ByHand: ByHandChanges,
    JobRecord: JobRecordChanges,
    Waiting: WaitingChanges,
    Opened: OpenedChanges,
    Level: LevelChanges,
    LoopRecord: LoopRecordChanges,
    OutboxEntry: OutboxEntryChanges,
    MarkRecord: MarkChanges,
    WindowRecord: WindowChanges,
    StageToken: StageTokenChanges,
}
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def job(**fields: Any) -> JobRecord:
    claim = Claim(try_number=1, at=NOW)
    return JobRecord(
        **{"key": "k", "epoch": Epoch(), "generation": 1, "token": "t", "phase": Phase.INTENT, "claim": claim, **fields}
    )


def kinds(kind: type[StoredModel] = StoredModel) -> Iterator[type[StoredModel]]:
    """All that stand in the package."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("airflow_resume."):
            yield each
        yield from kinds(each)


def test_every_kind_says_which_fields_may_change() -> None:
    assert {*kinds()} - {Record} == CHANGES.keys()


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_what_may_change_are_fields_of_the_model_with_their_types(kind: type[StoredModel]) -> None:
    fields = get_type_hints(kind, include_extras=False)
    may_change = get_type_hints(CHANGES[kind], include_extras=False)
    assert may_change == {name: fields[name] for name in may_change if name in kind.model_fields}
    assert "v" not in may_change


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_a_change_takes_what_its_typed_dict_names(kind: Any) -> None:
    assert kind.changed.__annotations__["changes"] == f"Unpack[{CHANGES[kind].__name__}]"


def test_a_change_keeps_the_rest_and_fields_that_are_not_known() -> None:
    record = job(later={"x": [1, None]})
    changed = record.changed(phase=Phase.SUBMITTED, id=7)
    assert changed.model_dump() == {**record.model_dump(), "phase": Phase.SUBMITTED, "id": 7}
    assert (record.phase, record.id) == (Phase.INTENT, None)
    assert changed.model_extra == {"later": {"x": [1, None]}}


def test_what_is_changed_is_kept_as_a_reader_has_it() -> None:
    """Another object may stand in for the value that was given, and never one that was not checked."""
    later: Any = {"try": 2, "at": NOW}
    assert job().changed(claim=later).claim == Claim(try_number=2, at=NOW)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"statsu": JobStatus.ACTIVE}, "A JobRecord cannot be changed so: statsu: Extra inputs are not permitted"),
        ({"later": 2}, "later: Extra inputs"),  # not known, so not ours to change
        ({"status": "active"}, "status: "),
        ({"token": 7}, "token: "),
        ({"token": ""}, "token: "),
        ({"submitted_at": "2026-01-01T00:00:00Z"}, "submitted_at: "),
        ({"submitted_at": datetime(2026, 1, 1)}, "submitted_at: "),  # noqa: DTZ001  that is what is wrong with it
        ({"stray": 1}, "stray: "),
        ({"id": object()}, "id: "),
        ({"history": [{}]}, "history: "),
        ({"claim": {"try": "1", "at": NOW}}, "claim.try: "),
    ],
)
def test_a_field_that_is_misspelt_or_wrongly_typed_is_refused(changes: Any, why: str) -> None:
    record = job(later=1)
    with pytest.raises(InvalidValueError, match=why):
        record.changed(**changes)
    assert record == job(later=1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda: job().changed(phase=Phase.SUBMITTED), "a submitted job has an id"),
        (lambda: job().changed(status=JobStatus.ACTIVE), "has an id"),
        (lambda: job(id=1, phase="submitted", status="active").changed(phase=Phase.TERMINAL), "ended is not active"),
        (lambda: Level(kind="k", n=1, ahead=Ahead(runs=[1, 1])).changed(done=True), "done ahead"),
        (lambda: Level(kind="k", n=1, ahead=Ahead(runs=[1, 1])).changed(n=0), "done ahead"),
        (lambda: loop(total=3, n=3).changed(done=True, n=2), "has done all its elements"),
        (lambda: window(state=WindowState.CLAIMED, start=None).changed(state=WindowState.PENDING), "needs a start"),
    ],
)
def test_a_change_that_contradicts_the_rest_is_refused(change: Any, why: str) -> None:
    with pytest.raises(InvalidValueError, match=why):
        change()


def loop(**fields: Any) -> LoopRecord:
    at = Opened(try_number=1, epoch=Epoch(try_number=1))
    return LoopRecord(**{"key": "k", "kind": "page_number", "at": at, "t0": NOW, "ts": NOW, **fields})


def window(**fields: Any) -> WindowRecord:
    claim = Claim(try_number=1, at=NOW)
    return WindowRecord(**{"key": "k", "base_rev": 0, "epoch": "e", "start": "a", "claim": claim, **fields})


def test_no_other_code_changes_a_model_without_a_check() -> None:
    toolkit = Path(airflow_resume.__file__).parent
    found = [
        f"{path.relative_to(toolkit)}:{node.lineno}"
        for path in sorted(toolkit.rglob("*.py"))
        if path.name != "stored.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "model_copy"
    ]
    assert found == [], "change it with changed(...)"
