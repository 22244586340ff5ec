"""An attempt that is interrupted around a commit, by a time-out or Ctrl-C: the position is never moved back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert

from airflow_resume import checkpoint
from airflow_resume.sinks import SqlSink
from airflow_resume.sinks.transaction import SqlPosition
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.backends.databases import kill_connections
from tests.support.sinks.places import KINDS, ROWS, place_of, rows_in


class InterruptError(BaseException):
    """Like a KeyboardInterrupt, or the time-out of a task, which comes between any two lines."""


class SignalError(Exception):
    """The same for a handler of signals that raises an ordinary error."""


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with place_of(request.param, tmp_path) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(retries=9)


def load(engine: Engine, attempt: TaskAttempt, seen: list[int], **options: Any) -> None:
    """Append five rows, and look at the connection of the driver, so that transactions begin early."""
    with checkpoint([1, 2, 3, 4, 5], name="rows", sink=SqlSink(engine), context=attempt.context, **options) as loop:
        for number in loop:
            loop.connection.connection.cursor().close()
            loop.connection.execute(insert(ROWS), {"id": number})
            seen.append(number)


Arm = Callable[[Engine, list[int], BaseException, pytest.MonkeyPatch], object]


def at_the_note(engine: Engine, seen: list[int], error: BaseException, _patch: pytest.MonkeyPatch) -> None:
    """The next transaction begins: the commit before it took place."""
    left = [error]

    def interrupt(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if left and len(seen) == 3 and statement.startswith("INSERT INTO airflow_resume_positions"):
            raise left.pop()

    event.listen(engine, "before_cursor_execute", interrupt)


def after_the_commit(engine: Engine, seen: list[int], error: BaseException, patch: pytest.MonkeyPatch) -> None:
    """The database has committed, and nobody has noted that yet."""
    left, commit = [error], engine.dialect.do_commit

    def interrupted(connection: Any) -> None:
        commit(connection)
        if left and len(seen) == 3:
            raise left.pop()

    patch.setattr(engine.dialect, "do_commit", interrupted)


def after_the_sink(_engine: Engine, seen: list[int], error: BaseException, patch: pytest.MonkeyPatch) -> None:
    """The sink knows of the commit, and the loop does not."""
    left, commit = [error], SqlPosition.commit

    def interrupted(position: SqlPosition, at: Any) -> None:
        commit(position, at)
        if left and len(seen) == 3:
            raise left.pop()

    patch.setattr(SqlPosition, "commit", interrupted)


def before_the_commit(engine: Engine, seen: list[int], error: BaseException, patch: pytest.MonkeyPatch) -> None:
    """Nothing was committed."""
    left, commit = [error], engine.dialect.do_commit

    def interrupted(connection: Any) -> None:
        if left and len(seen) == 3:
            raise left.pop()
        commit(connection)

    patch.setattr(engine.dialect, "do_commit", interrupted)


PLACES: list[Arm] = [at_the_note, after_the_commit, after_the_sink, before_the_commit]


@pytest.mark.parametrize("commit_every", [1, 3])
@pytest.mark.parametrize("kind", [InterruptError, SignalError])
@pytest.mark.parametrize("arm", PLACES)
def test_an_interrupt_around_a_commit_does_not_move_the_position_back(
    engine: Engine,
    attempt: TaskAttempt,
    *,
    arm: Arm,
    kind: type[BaseException],
    commit_every: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    error = kind()
    arm(engine, seen, error, monkeypatch)
    try:
        load(engine, attempt, seen, commit_every=commit_every)
    except kind as raised:
        assert raised is error
        load(engine, attempt.retry(), seen, commit_every=commit_every)
    assert rows_in(engine) == [1, 2, 3, 4, 5]


def test_a_connection_that_is_killed_when_the_next_transaction_begins_is_replaced(
    engine: Engine, attempt: TaskAttempt
) -> None:
    if engine.dialect.name not in {"postgresql", "mysql"}:
        pytest.skip("it has no server")
    seen: list[int] = []
    killed: list[str] = []

    def kill(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not killed and len(seen) == 3 and statement.startswith("INSERT INTO airflow_resume_positions"):
            killed.append(statement)
            kill_connections(engine.url.render_as_string(hide_password=False))

    event.listen(engine, "before_cursor_execute", kill)
    load(engine, attempt, seen)
    assert killed
    assert rows_in(engine) == [1, 2, 3, 4, 5]
