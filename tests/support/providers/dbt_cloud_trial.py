"""The real DbtCloudRunJobOperator under faults, in this process, like `livy_trial`.

Only the address differs from the real one: the hook knows only https, and the service here has no certificate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from airflow.providers.dbt.cloud.hooks.dbt import DbtCloudHook
from airflow.providers.dbt.cloud.operators.dbt import DbtCloudRunJobOperator

from airflow_resume.errors import LostSubmissionError
from tests.support.providers.dbt_cloud_service import FIRST_RUN, RUNNING, SUCCESS, DbtCloudService, run_url
from tests.support.providers.trial import Trial, is_wrapped

AGES = (RUNNING,) * 5 + (SUCCESS,)
UNHEARD_OF = 4

Kind = type[DbtCloudRunJobOperator]


class LoopbackHook(DbtCloudHook):
    """The hook at another address."""

    def get_conn(self, *args: Any, **options: Any) -> Any:
        session = super().get_conn(*args, **options)
        self.base_url = f"http://{self.connection.host}:{self.connection.port}/"
        return session


def make_operator(kind: Kind, **options: Any) -> Any:
    made: Any = kind(task_id="task", job_id=5, trigger_reason="nightly", check_interval=0.001, **options)  # type: ignore[arg-type]
    made.hook = LoopbackHook("dbt_cloud_default")
    return made


@contextmanager
def dbt_cloud_trial(kind: Kind, *, states: tuple[int, ...] = AGES) -> Iterator[Trial]:
    """A task whose first run gets the id `FIRST_RUN`."""
    with DbtCloudService(states=states) as dbt_cloud, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_DBT_CLOUD_DEFAULT", connection(dbt_cloud))
        yield Trial(jobs=dbt_cloud.runs, make_operator=partial(make_operator, kind), is_wrapped=is_wrapped(kind))


def connection(dbt_cloud: DbtCloudService) -> str:
    """The Airflow connection that leads to the service."""
    account = {"conn_type": "dbt_cloud", "login": "1", "password": "token-of-a-fake"}
    return json.dumps({**account, "host": "127.0.0.1", "port": dbt_cloud.port})


def _runs(trial: Trial) -> str:
    number = trial.submitted
    return f"{number} {'run' if number == 1 else 'runs'}, {trial.jobs.most_alive} at once"


def killed_while_it_waits(kind: Kind) -> str:
    with dbt_cloud_trial(kind) as trial:
        trial.killed("get_job_run_status", nth=2)
        returned = trial.run()
        if trial.submitted == 1:
            assert returned == FIRST_RUN
            assert trial.attempt.ti.xcoms == {"job_run_url": run_url(FIRST_RUN), "job_run_id": FIRST_RUN}
        return _runs(trial)


def killed_before_the_id_is_saved(kind: Kind) -> str:
    with dbt_cloud_trial(kind) as trial:
        trial.killed("trigger_job_run")
        try:
            trial.run()
        except LostSubmissionError:
            return f"{_runs(trial)}; the retry fails and says what to look for"
        return _runs(trial)


def no_answer_for_a_moment(kind: Kind) -> str:
    with dbt_cloud_trial(kind) as trial:
        trial.jobs.failures = 1
        failed = trial.fails(1)
        if failed:
            trial.run()
        return f"{_runs(trial)}; {'the attempt fails' if failed else 'it waits on'}"


def a_status_the_provider_does_not_know(kind: Kind) -> str:
    with dbt_cloud_trial(kind, states=(UNHEARD_OF,) * 3 + AGES) as trial:
        failed = trial.fails(1)
        trial.jobs.states = AGES
        if failed:
            trial.run()
        return f"{_runs(trial)}; {'the attempt fails' if failed else 'it waits on'}"


def cleared_while_it_waits(kind: Kind) -> str:
    with dbt_cloud_trial(kind) as trial:
        trial.killed("get_job_run_status", nth=2)
        trial.attempt = trial.attempt.clear()
        trial.run()
        return _runs(trial)


SCENARIOS: dict[str, Callable[[Kind], str]] = {
    "killed while it waits": killed_while_it_waits,
    "killed after the submit, before the id is saved": killed_before_the_id_is_saved,
    "dbt Cloud answers 503 once while it waits": no_answer_for_a_moment,
    "a status that the provider does not know": a_status_the_provider_does_not_know,
    "killed while it waits, and the task is cleared": cleared_while_it_waits,
}
"""The rows of the table."""
