"""What a SQL sink keeps in one transaction, on every database: claims, commits, fences, lost replies, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from airflow_resume.errors import SinkBusyError, SinkError, SinkUnsafeError, SupersededError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import SqlSink
from airflow_resume.sinks.claim import Claim
from airflow_resume.sinks.transaction import SqlPosition
from tests.support.sinks.places import KINDS, ROWS, place_of, rows_in

TASK: list[Any] = ["loop", "dag", "run", "task", -1, "orders"]


def attempt(try_number: int) -> Claimant:
    return Claimant(owner="a task", try_number=try_number)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(kind: str, tmp_path: Path) -> Iterator[Engine]:
    with place_of(kind, tmp_path) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture
def sink(engine: Engine) -> SqlSink:
    return SqlSink(engine, patience=timedelta(seconds=1))


@pytest.fixture
def claim(sink: SqlSink) -> Iterator[Callable[[int], SqlPosition]]:
    claimed: list[SqlPosition] = []

    def claim_one(try_number: int = 1) -> SqlPosition:
        claimed.append(sink.claim(TASK, attempt(try_number)))
        return claimed[-1]

    yield claim_one
    for position in claimed:
        position.close()


def add(position: SqlPosition, *ids: int) -> None:
    position.connection.execute(insert(ROWS), [{"id": each, "name": f"flight {each}"} for each in ids])


# --- together -----------------------------------------------------------------------------------------------------


def test_the_table_is_made_once_and_its_statement_can_be_printed(sink: SqlSink, claim: Any, engine: Engine) -> None:
    assert sink.ddl().startswith("CREATE TABLE IF NOT EXISTS airflow_resume_positions (")
    claim()
    claim(2)
    assert {"airflow_resume_positions", "flights"} <= set(inspect(engine).get_table_names())


def test_a_new_position_is_none_and_rows_and_position_are_kept_together(claim: Any, engine: Engine) -> None:
    first = claim()
    assert first.position is None
    add(first, 1, 2)
    first.commit({"at": 2})
    add(first, 3)
    first.commit({"at": 3, "text": "ü 😀"})
    first.close()
    assert rows_in(engine) == [1, 2, 3]
    assert claim(2).position == {"at": 3, "text": "ü 😀"}


def test_what_was_not_committed_is_gone_with_its_position(claim: Any, engine: Engine) -> None:
    first = claim()
    add(first, 1)
    first.commit(1)
    add(first, 2)
    first.close()
    assert rows_in(engine) == [1]
    assert claim(2).position == 1


def test_a_rolled_back_element_can_be_done_again_in_the_same_attempt(claim: Any, engine: Engine) -> None:
    first = claim()
    add(first, 1)
    first.rollback()
    add(first, 1)
    first.commit(1)
    assert rows_in(engine) == [1]


def test_a_commit_without_rows_moves_the_position(claim: Any) -> None:
    first = claim()
    first.commit(1)
    first.commit(2)
    assert claim(2).position == 2


def test_a_connection_that_the_body_has_kept_is_in_a_transaction_of_ours(claim: Any, engine: Engine) -> None:
    first = claim()
    kept: Connection = first.connection
    for number in (1, 2, 3):
        kept.execute(insert(ROWS), {"id": number})
        first.commit(number)
    assert rows_in(engine) == [1, 2, 3]


def test_positions_of_two_loops_are_kept_apart(sink: SqlSink, kind: str) -> None:
    for name, at in (("a", 1), ("b", 2)):
        position = sink.claim(["loop", name], attempt(1))
        position.commit(at)
        position.close()
    for name, at in (("a", 1), ("b", 2)):
        position = sink.claim(["loop", name], attempt(1))
        assert position.position == at
        position.close()


# --- who may commit -------------------------------------------------------------------------------------------------


def test_the_commit_of_a_replaced_attempt_fails_with_its_rows(claim: Any, engine: Engine) -> None:
    old = claim(1)
    old.commit(1)
    new = claim(2)
    if engine.dialect.name == "sqlite":  # one writer at a time: the old one begins its transaction after the new one's
        add(new, 5)
        new.commit(5)
    add(old, 1, 2)
    with pytest.raises(SupersededError):
        old.commit(2)
    add(new, 6)
    new.commit(6)
    assert rows_in(engine) == [5, 6] if engine.dialect.name == "sqlite" else [6]
    assert claim(3).position == 6


def test_an_attempt_that_is_late_claims_nothing(claim: Any) -> None:
    claim(2).commit(7)
    with pytest.raises(SupersededError):
        claim(1)
    assert claim(3).position == 7


def test_so_does_one_that_comes_after_its_successor_has_ended(claim: Any) -> None:
    claim(2).close()
    with pytest.raises(SupersededError):
        claim(1)


def test_of_two_runs_of_a_script_the_second_takes_over_and_the_first_commits_no_more(
    sink: SqlSink, engine: Engine
) -> None:
    first, second = sink.claim(TASK, Claimant()), sink.claim(TASK, Claimant())
    with pytest.raises(SupersededError):
        first.commit(1)
    second.commit(2)
    first.close()
    second.close()


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        self.now, self._happens = 0.0, list(happens)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._happens:
            self._happens.pop(0)()


def contending(sink: SqlSink, policy: Any, clock: Clock) -> Claim:
    return Claim(
        sink.engine,
        sink.positions,
        target=sink.target,
        on_contention=policy,
        patience=timedelta(seconds=10),
        monotonic=clock,
        sleep=clock.sleep,
    )


def test_a_second_run_waits_until_the_first_has_ended(sink: SqlSink) -> None:
    first = sink.claim(TASK, Claimant())
    clock = Clock(lambda: first.commit(1), lambda: first.commit(2), first.close)
    second = contending(sink, "wait", clock).claimed(TASK, Claimant())
    assert second.position == 2
    second.close()


def test_a_second_run_fails_by_name_while_the_first_one_commits(sink: SqlSink) -> None:
    first = sink.claim(TASK, Claimant())
    with pytest.raises(SinkBusyError, match=r"^Another run works on .*\nWait for its end"):
        contending(sink, "fail", Clock(lambda: first.commit(1))).claimed(TASK, Claimant())
    first.commit(2)
    first.close()


@pytest.mark.parametrize("policy", ["wait", "fail"])
def test_a_run_that_says_nothing_for_as_long_as_one_waits_is_taken_for_dead(sink: SqlSink, policy: str) -> None:
    first, clock = sink.claim(TASK, Claimant()), Clock()
    first.commit(1)
    second = contending(sink, policy, clock).claimed(TASK, Claimant())
    assert clock.now >= 10
    assert second.position == 1
    with pytest.raises(SupersededError):
        first.commit(2)
    first.close()
    second.close()


# --- a reply that got lost ----------------------------------------------------------------------------------------


class LostReplyError(Exception):
    """Stands for what a driver raises when the connection breaks."""


def breaking(engine: Engine, *, applied: bool, error: type[BaseException] | None = None) -> None:
    """Break the connection at the next commit, after or before it takes place; or raise an error of another kind."""
    dialect: Any = engine.dialect
    commit = dialect.do_commit

    def do_commit(raw: Any) -> None:
        dialect.do_commit = commit
        if applied:
            commit(raw)
        if error is not None:
            raise error
        raise OperationalError("COMMIT", {}, LostReplyError("gone"), connection_invalidated=True)

    dialect.do_commit = do_commit


def test_a_commit_whose_reply_was_lost_counts_and_is_not_done_again(
    claim: Any, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    first = claim()
    add(first, 1)
    breaking(engine, applied=True)
    first.commit(1)
    assert "its reply was lost" in caplog.text
    add(first, 2)
    first.commit(2)
    assert rows_in(engine) == [1, 2]
    assert claim(2).position == 2


def test_a_commit_that_did_not_take_place_raises_the_drivers_error(claim: Any, engine: Engine) -> None:
    first = claim()
    add(first, 1)
    breaking(engine, applied=False)
    with pytest.raises(OperationalError, match="gone"):
        first.commit(1)
    add(first, 1)
    first.commit(1)
    assert rows_in(engine) == [1]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("applied", [True, False])
def test_whatever_a_commit_raises_the_row_says_what_became_of_it(
    claim: Any, engine: Engine, *, applied: bool, error: type[BaseException]
) -> None:
    first = claim()
    add(first, 1)
    breaking(engine, applied=applied, error=error)
    with nullcontext() if applied and error is OSError else pytest.raises(error):
        first.commit(1)
    first.rollback()
    first.close()
    assert rows_in(engine) == ([1] if applied else [])
    assert claim(2).position == (1 if applied else None)


def test_a_row_that_is_gone_is_an_error_by_name_and_nothing_is_committed(
    claim: Any, sink: SqlSink, engine: Engine
) -> None:
    first = claim()
    first.commit(1)
    with engine.begin() as other:
        other.execute(sink.positions.delete())
    add(first, 1)
    with pytest.raises(SinkError, match="is gone from"):
        first.commit(2)
    assert rows_in(engine) == []


# --- what separates rows from their position ----------------------------------------------------------------------


ENDINGS: dict[str, Callable[[SqlPosition], object]] = {
    "commit()": lambda position: position.connection.commit(),
    "COMMIT": lambda position: position.connection.execute(text("COMMIT")),
    "a comment, commit": lambda position: position.connection.execute(text("-- done\n /* now */ commit")),
    "ROLLBACK": lambda position: position.connection.exec_driver_sql("ROLLBACK"),
    "BEGIN": lambda position: position.connection.exec_driver_sql("begin"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_body_that_ends_the_transaction_is_refused_before_anything_is_kept(
    claim: Any, engine: Engine, ending: str
) -> None:
    first = claim()
    add(first, 1)
    with pytest.raises(SinkUnsafeError, match="Leave the commit to the loop") as raised:
        ENDINGS[ending](first)
    assert raised.value.problem == "ended"
    first.close()
    assert rows_in(engine) == []


def test_a_body_that_rolls_back_by_itself_cannot_move_the_position(claim: Any, engine: Engine) -> None:
    first = claim()
    add(first, 1)
    first.connection.rollback()
    add(first, 2)
    with pytest.raises(SinkUnsafeError, match="rolled back"):
        first.commit(2)
    first.close()
    assert rows_in(engine) == []
    assert claim(2).position is None


def test_one_that_commits_behind_our_back_fails_without_a_retry_and_the_position_stays(
    claim: Any, engine: Engine
) -> None:
    first = claim()
    add(first, 1)
    raw: Any = first.connection.connection.dbapi_connection
    raw.commit()

    def go_on() -> None:
        add(first, 2)  # refused here, if the driver says that it is in no transaction
        first.commit(2)

    with pytest.raises(SinkUnsafeError, match="committed without its position"):
        go_on()
    first.close()
    assert rows_in(engine) == [1]
    with pytest.raises(SinkUnsafeError, match="committed without its position"):
        claim(2)


def test_a_statement_that_commits_on_mysql_is_refused_before_it_is_executed(
    claim: Any, engine: Engine, kind: str
) -> None:
    first = claim()
    add(first, 1)
    if kind == "mysql":
        for statement in (
            "CREATE TABLE other (id int)",
            "CREATE OR REPLACE TABLE other (id int)",
            "ANALYZE TABLE flights",
        ):
            with pytest.raises(SinkUnsafeError, match=statement.split()[0]):
                first.connection.execute(text(statement))
        first.connection.execute(text("CREATE TEMPORARY TABLE temporary_ids (id int)"))
        first.connection.execute(text("CREATE OR REPLACE TEMPORARY TABLE temporary_ids (id int)"))  # of MariaDB
        first.connection.execute(text("ANALYZE SELECT * FROM flights"))  # this too
    else:
        first.connection.execute(text("CREATE TABLE other (id int)"))
    first.close()
    assert rows_in(engine) == []
    assert "other" not in inspect(engine).get_table_names()


def test_an_engine_that_commits_each_statement_is_refused(kind: str, engine: Engine) -> None:
    if kind == "duckdb":
        pytest.skip("its driver has no isolation levels")
    each = engine.execution_options(isolation_level="AUTOCOMMIT")
    with pytest.raises(SinkUnsafeError, match="autocommit") as raised:
        SqlSink(each).claim(TASK, attempt(1))
    assert raised.value.problem == "autocommit"


# --- ways to write ------------------------------------------------------------------------------------------------


def test_an_orm_session_writes_into_the_transaction(claim: Any, engine: Engine) -> None:
    first = claim()
    with Session(bind=first.connection) as session:
        session.execute(insert(ROWS), {"id": 1})
        session.commit()
    first.rollback()
    assert rows_in(engine) == []
    with Session(bind=first.connection) as session:
        session.execute(insert(ROWS), {"id": 1})
        session.commit()
    first.commit(1)
    assert rows_in(engine) == [1]


def test_a_session_that_is_kept_over_elements_is_told_to_make_one_for_each(claim: Any, engine: Engine) -> None:
    first = claim()
    session = Session(bind=first.connection)
    session.execute(insert(ROWS), {"id": 1})
    session.commit()
    first.commit(1)
    session.execute(insert(ROWS), {"id": 2})
    with pytest.raises(SinkUnsafeError, match=r"Session for each element, with Session\(bind=loop\.connection\)"):
        session.commit()
    first.rollback()
    assert rows_in(engine) == [1]


def test_a_savepoint_of_the_body_is_its_own(claim: Any, engine: Engine, kind: str) -> None:
    if kind == "duckdb":
        pytest.skip("it has no savepoints")
    first = claim()
    add(first, 1)
    with pytest.raises(KeyError), first.connection.begin_nested():
        add(first, 2)
        raise KeyError
    with first.connection.begin_nested():
        add(first, 3)
    first.commit(1)
    assert rows_in(engine) == [1, 3]


def statements_beside_the_rows(claim: Any, engine: Engine, write: Callable[[Any], object]) -> list[str]:
    first = claim()
    first.commit(0)
    seen: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *a: seen.append(a[2]))
    write(first)
    first.commit(1)
    return [each.split()[0] for each in seen if "flights" not in each]


def test_a_few_statements_for_the_guard_and_one_for_the_position_are_added_to_a_transaction(
    claim: Any, engine: Engine
) -> None:
    def write(position: Any) -> None:
        add(position, 1)
        position.connection.execute(text("INSERT INTO flights (id) VALUES (2)"))
        add(position, 3)

    ours = statements_beside_the_rows(claim, engine, write)
    by_number = ["INSERT", "DELETE", "UPDATE"]
    by_savepoint = ["SAVEPOINT", "INSERT", "RELEASE", "DELETE", "UPDATE"]
    questions = ["SELECT"] * 3  # whether it still is the transaction, as the driver does not tell
    on_duckdb = ["INSERT", *questions, "DELETE", "UPDATE"]
    wanted = {"postgresql": by_number, "duckdb": on_duckdb, "mysql": by_savepoint, "sqlite": ["BEGIN", *by_savepoint]}
    assert ours == wanted[engine.dialect.name if engine.dialect.name != "mariadb" else "mysql"]
    assert sorted(rows_in(engine)) == [1, 2, 3]
