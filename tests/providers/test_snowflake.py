"""Snowflake's operator of the SQL API, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("airflow.providers.snowflake", reason="the providers have an environment of their own")

from airflow.providers.snowflake.hooks.snowflake_sql_api import SnowflakeSqlApiHook
from airflow.providers.snowflake.operators import snowflake as upstream
from tenacity import wait_none

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobFailedError
from airflow_resume.testing import TaskAttempt, check_operator, task_context
from airflow_resume_mixins.providers import snowflake as ours
from tests.support.providers.operator_trials import connections, die_in_the_window, explore, run_rendered
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.snowflake_statements import FAILED, RUNNING, SUCCEEDED, TIMED_OUT, SnowflakeStatements
from tests.support.providers.trial import is_wrapped

WHILE = timedelta(milliseconds=20)
SOON = ResumePolicy(poll=PollPolicy(interval=WHILE, max_interval=WHILE))
"""The hook opens and closes a session for each request. A kill that comes while Python finalises one is lost."""
AT_ONCE_AGAIN = {"wait": wait_none()}
"""For the hook, which sends a request up to five times."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "SnowflakeSqlApiOperator": {"sql": "insert into t select '{{ run_id }}'", "statement_count": 1},
    "SnowflakeNotebookOperator": {"notebook": "DB.SCHEMA.NOTEBOOK"},
}


@pytest.fixture(scope="module")
def service() -> Iterator[SnowflakeStatements]:
    extra = json.dumps({"account": "a", "authenticator": "programmatic_access_token"})
    account = {"conn_type": "snowflake", "login": "u", "password": "t", "extra": extra}
    with SnowflakeStatements() as running, connections(snowflake_default=account) as patch:
        # The hook has the name of the host fixed, and no other place to change it.
        patch.setattr(SnowflakeSqlApiHook, "account_identifier", f"{running.url}/")
        yield running


@pytest.fixture
def lists_handles(service: SnowflakeStatements, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "lists_handles", True)


def made(module: Any, name: str = "SnowflakeSqlApiOperator", **options: Any) -> Any:
    kind = getattr(module, name)
    policy = {"resume_policy": SOON} if is_wrapped(kind) else {}
    quick = {"poll_interval": 0.002, "snowflake_api_retry_args": AT_ONCE_AGAIN}
    return kind(**{"task_id": "task", "retries": 3, **quick, **ARGUMENTS[name], **policy, **options})


def played(service: SnowflakeStatements, module: Any, name: str = "SnowflakeSqlApiOperator", **options: Any) -> Any:
    given = {key: options.pop(key) for key in ("sql", "statement_count") if key in options}
    return check_operator(
        partial(made, module, name, **given),
        service.jobs,
        same_as=partial(made, upstream, name, **given),
        deferrable={"deferrable": True},
        grace=0.2,
        seconds=30,
        **options,
    )


@pytest.mark.parametrize("name", ARGUMENTS)
def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: SnowflakeStatements, name: str) -> None:
    report = documented(played(service, ours, name), "snowflake", OURS, name)
    assert not report.problems, f"\n{report}"


@pytest.mark.usefixtures("lists_handles")
def test_so_it_has_with_several_statements_and_a_list_of_handles(service: SnowflakeStatements) -> None:
    report = played(service, ours, sql="insert into a select 1; insert into b select 2;", statement_count=0)
    assert not report.problems, f"\n{report}"


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_the_providers_own_does(service: SnowflakeStatements, name: str) -> None:
    report = documented(played(service, upstream, name), "snowflake", OWN, name)
    assert {name: str(played) for name, played in report.problems.items()} == {
        "cleared, job alive": "1 / 1 / 0, same result",  # the old statement, and it is not cancelled
        "cleared, job done": "1 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "deferrable": "2 / 2 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
    }


def test_it_may_die_at_any_point(service: SnowflakeStatements) -> None:
    explore(partial(made, ours), service, SnowflakeSqlApiHook, "execute_query")


def began(service: SnowflakeStatements, *states: str, **options: Any) -> TaskAttempt:
    service.jobs.reset()
    service.jobs.follow(list(states) or [SUCCEEDED])
    return task_context(partial(made, ours, **options))


@pytest.mark.usefixtures("lists_handles")
def test_the_request_has_the_token_and_the_result_is_the_list_of_handles(service: SnowflakeStatements) -> None:
    attempt = began(service, sql="select 1; select 2", statement_count=2)
    operator = run_rendered(attempt)
    (job,) = service.jobs.seen()
    handles = [f"{job.id}-1", f"{job.id}-2"]
    assert attempt.ti.xcoms["query_ids"] == operator.query_ids == operator._hook.query_ids == handles
    assert UUID(job.request.query["requestId"]) == UUID(operator.submission_token, version=4)
    tag = f"airflow-resume-{operator.submission_token}"
    assert job.request.body["parameters"] == {"MULTI_STATEMENT_COUNT": 2, "query_tag": tag}


@pytest.mark.parametrize(("module", "statements"), [(upstream, 2), (ours, 1)])
def test_a_request_that_the_hook_sends_again_is_executed_once(
    service: SnowflakeStatements, module: Any, statements: int
) -> None:
    service.jobs.reset()
    service.jobs.follow([SUCCEEDED])
    service.answers_lost = 1
    run_rendered(task_context(partial(made, module)))
    assert len(service.jobs.seen()) == statements


def test_after_a_crash_in_the_window_the_sql_of_the_first_attempt_is_what_runs(service: SnowflakeStatements) -> None:
    attempt = began(service, sql="select {{ ti.try_number }}")
    run_rendered(die_in_the_window(attempt, SnowflakeSqlApiHook, "execute_query"))
    (job,) = service.jobs.seen()
    assert job.request.body["statement"] == "select 1"


def test_what_is_wrong_with_a_statement_is_in_the_log(
    service: SnowflakeStatements, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(JobFailedError):
        run_rendered(began(service, RUNNING, FAILED))
    (said,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert "It was ended. (Code: 002003, SQL State: 57014, " in said


def test_a_statement_whose_time_is_over_has_failed(service: SnowflakeStatements) -> None:
    with pytest.raises(JobFailedError):
        run_rendered(began(service, RUNNING, TIMED_OUT))


@pytest.mark.usefixtures("lists_handles")
def test_all_statements_are_cancelled_though_one_cannot_be(
    service: SnowflakeStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, cancelled = made(ours), []

    def cancel(query_ids: list[str]) -> None:
        cancelled.extend(query_ids)
        if query_ids == ["h-1"]:
            raise ConnectionError

    monkeypatch.setattr(operator._hook, "cancel_queries", cancel)
    with pytest.raises(ConnectionError):
        operator.cancel_job(["h-1", "h-2"], {})
    assert cancelled == ["h-1", "h-2"]


def test_with_cancel_on_kill_false_nothing_is_cancelled_and_a_cleared_task_waits_for_its_end(
    service: SnowflakeStatements,
) -> None:
    report = check_operator(
        partial(made, ours, cancel_on_kill=False), service.jobs, scenarios=["cleared, job alive"], seconds=30
    )
    played = report["cleared, job alive"]
    assert (played.jobs, played.most_alive, played.cancelled) == (2, 1, 0)


def test_without_xcoms_none_are_pushed(service: SnowflakeStatements) -> None:
    attempt = began(service, do_xcom_push=False)
    run_rendered(attempt)
    assert not attempt.ti.xcoms
