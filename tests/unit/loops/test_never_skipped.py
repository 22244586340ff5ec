"""Which errors of airflow-resume may skip an element, and which never do, even with `Skip(on=(Exception,))`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, insert, text
from sqlalchemy.orm import Session

from airflow_resume import checkpoint, errors
from airflow_resume.errors import LoopError, ResumeError, SinkUnsafeError, SupersededError, UsageError
from airflow_resume.loops import Skip
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from tests.support.sinks.places import ROWS, place_of, rows_in

OF_AN_ELEMENT = {
    "ColumnError",
    "CursorTypeError",
    "EndlessSourceError",
    "IncompleteLoopError",
    "JobError",
    "JobFailedError",
    "JobFailedForGoodError",
    "JobGoneError",
    "JobInputsChangedError",
    "JobStatusUnknownError",
    "JobWaitTimeoutError",
    "LostSubmissionError",
    "ResumeError",
    "RowOrderError",
    "SourceChangedError",
    "SourceNotReopenableError",
    "StalledError",
    "StrayJobError",
    "TokenExpiredError",
    "WatermarkConflictError",
    "WatermarkError",
    "WatermarkGapError",
    "WatermarkInputError",
    "WatermarkLostError",
    "WatermarkMismatchError",
    "WindowNotReadError",
    "WrongAnswerError",
}
"""Errors about a job, rows or a source, which an element may have of its own."""
OF_THE_COMMAND = {"AirflowApiError", "ChangeRefusedError", "OperatingError", "UpgradeError"}


def test_each_error_skips_an_element_or_it_is_known_that_it_never_does() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ResumeError)]
    skip = Skip(on=(Exception,))
    skipped = {kind.__name__ for kind in classes if skip.covers(kind("It failed."), skipped=0)}
    assert skipped - OF_THE_COMMAND == OF_AN_ELEMENT


@pytest.mark.parametrize("error", [UsageError, SinkUnsafeError, SupersededError, LoopError])
@pytest.mark.parametrize("way", ["skipping", "map"])
def test_an_error_of_the_attempt_leaves_the_loop(error: type[ResumeError], way: str) -> None:
    def fail(_number: int) -> None:
        raise error("It failed.")

    loop = checkpoint([1, 2, 3], name="rows", skip=Skip(on=(Exception,)), store=MemoryStore())
    with pytest.raises(error):
        if way == "map":
            list(loop.map(fail, workers=2))
        for number in loop:
            with loop.skipping():
                fail(number)
    assert loop.skipped == 0


# --- with a sink ----------------------------------------------------------------------------------------------------


def commit_in_a_session(loop: Any) -> None:
    Session(bind=loop.connection, join_transaction_mode="control_fully").connection().commit()


ENDINGS: dict[str, Callable[[Any], object]] = {
    "commit()": lambda loop: loop.connection.commit(),
    "COMMIT": lambda loop: loop.connection.execute(text("COMMIT")),
    "BEGIN": lambda loop: loop.connection.execute(text("BEGIN")),
    "of a session": commit_in_a_session,
}


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with place_of(request.param, tmp_path) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.mark.parametrize("commit_every", [1, 6])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_body_that_ends_the_transaction_is_not_skipped(engine: Engine, ending: str, commit_every: int) -> None:
    store = MemoryStore()

    def load(end: Callable[[Any], object]) -> int:
        skip = Skip(on=(ValueError,))
        with checkpoint(
            [1, 2, 3], name="rows", skip=skip, sink=SqlSink(engine), store=store, commit_every=commit_every
        ) as loop:
            for number in loop:
                with loop.skipping():
                    loop.connection.execute(insert(ROWS), {"id": number})
                    if number == 2:
                        end(loop)
        return loop.skipped

    with pytest.raises(SinkUnsafeError, match="Leave the commit to the loop"):
        load(ENDINGS[ending])
    assert rows_in(engine) == ([1] if commit_every == 1 else [])
    assert load(lambda _loop: None) == 0
    assert rows_in(engine) == [1, 2, 3]


@pytest.mark.parametrize("kinds", [(ValueError,), (Exception,)])
def test_a_database_without_savepoints_is_refused_by_name(tmp_path: Path, kinds: Any) -> None:
    with place_of("duckdb", tmp_path) as url:
        engine = create_engine(url)
        with (
            pytest.raises(SinkUnsafeError, match="has no savepoints"),
            checkpoint([1, 2], name="rows", skip=Skip(on=kinds), sink=SqlSink(engine), store=MemoryStore()) as loop,
        ):
            for number in loop:
                with loop.skipping():
                    loop.connection.execute(insert(ROWS), {"id": number})
        assert rows_in(engine) == []
        engine.dispose()
