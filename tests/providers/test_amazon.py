"""The operators of `providers.amazon` on AWS on loopback, beside those of the provider."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib import import_module
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("moto", reason="providers have an environment of their own: make providers")

from airflow.providers.amazon.aws.hooks.batch_client import BatchClientHook
from airflow.providers.amazon.aws.operators import sagemaker
from airflow.sdk.exceptions import TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobInputsChangedError
from airflow_resume.testing import CrashWorld, TaskAttempt, check_operator, explore_crashes, task_context
from airflow_resume.testing.oracles import same_result
from airflow_resume_mixins.providers import amazon as ours
from airflow_resume_mixins.providers.provider_job import with_token
from tests.support.providers.aws_jobs import JOB_APIS
from tests.support.providers.aws_service import AwsService
from tests.support.providers.aws_set_up import SET_UP, Params
from tests.support.providers.scenario_table import OURS, OWN, documented

MOMENT = timedelta(milliseconds=2)
AT_ONCE = ResumePolicy(
    poll=PollPolicy(interval=MOMENT, max_interval=MOMENT),
    confirm_gone=timedelta(milliseconds=20),
    unknown_timeout=timedelta(seconds=10),
)
TOKEN = "0123456789abcdef" * 2


@dataclass(frozen=True, kw_only=True)
class Case:
    """One operator.

    Args:
        operator: its name.
        api: of its jobs, in `JOB_APIS`.
        options: its arguments, given those of the API's submit.
        mapped: the argument that is mapped.
        not_waiting: the arguments with which it does not wait.
        waits: whether it waits in its worker.
        has_token: whether its request has a field for a token.
        problems: what is not as it should be.
    """

    operator: str
    api: str
    options: Callable[[Params], Params]
    mapped: str
    not_waiting: Params | None = field(default_factory=lambda: {"wait_for_completion": False})
    waits: bool = True
    has_token: bool = False
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def theirs(self) -> Any:
        own = getattr(ours, self.operator)
        return next(base for base in own.__mro__ if base.__name__ == self.operator and base is not own)


def _sagemaker(kind: str, **options: Any) -> Case:
    return Case(
        operator=f"SageMaker{kind}Operator",
        api=f"sagemaker_{kind.lower()}",
        options=lambda submit: {"config": deepcopy(submit), "check_interval": 0.01, **options},
        mapped="config",
    )


CASES = [
    Case(
        operator="AthenaOperator",
        api="athena",
        options=lambda submit: {
            "query": submit["QueryString"],
            "database": "d",
            "output_location": "s3://b/o/",
            "sleep_time": 0.01,
        },
        mapped="query",
        not_waiting=None,
        has_token=True,
    ),
    Case(
        operator="BatchOperator",
        api="batch",
        options=lambda submit: {
            "job_name": submit["jobName"],
            "job_queue": submit["jobQueue"],
            "job_definition": submit["jobDefinition"],
            "status_retries": 1,
        },
        mapped="job_definition",
        # The link to the logs can only be made from the job.
        problems={"forgotten, job done": "1 / 1 / 0, other result"},
    ),
    Case(
        operator="EcsRunTaskOperator",
        api="ecs",
        options=lambda submit: {
            "task_definition": submit["taskDefinition"],
            "cluster": submit["cluster"],
            "launch_type": submit["launchType"],
            "network_configuration": submit["networkConfiguration"],
            "overrides": {},
            "waiter_delay": 0.01,
        },
        mapped="task_definition",
        has_token=True,
    ),
    Case(
        operator="EmrAddStepsOperator",
        api="emr_steps",
        options=lambda submit: {
            "job_flow_id": submit["JobFlowId"],
            "steps": submit["Steps"],
            "waiter_delay": 0.01,
            "wait_for_completion": True,
        },
        mapped="steps",
    ),
    Case(
        operator="EmrContainerOperator",
        api="emr_containers",
        options=lambda submit: {
            "name": submit["name"],
            "virtual_cluster_id": submit["virtualClusterId"],
            "execution_role_arn": submit["executionRoleArn"],
            "release_label": submit["releaseLabel"],
            "job_driver": submit["jobDriver"],
            "poll_interval": 0.01,
        },
        mapped="name",
        has_token=True,
    ),
    Case(
        operator="EmrServerlessStartJobOperator",
        api="emr_serverless",
        options=lambda submit: {
            "application_id": submit["applicationId"],
            "execution_role_arn": submit["executionRoleArn"],
            "job_driver": submit["jobDriver"],
            "configuration_overrides": {
                "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": "s3://b/logs"}}
            },
            "enable_application_ui_links": True,
            "waiter_delay": 0,
            "waiter_max_attempts": 1000,
        },
        mapped="execution_role_arn",
        has_token=True,
    ),
    Case(
        operator="GlueJobOperator",
        api="glue",
        options=lambda submit: {
            "job_name": submit["JobName"],
            "script_args": submit["Arguments"],
            "stop_job_run_on_kill": True,
            "job_poll_interval": 0.01,
            "iam_role_arn": "arn:aws:iam::123456789012:role/r",
        },
        mapped="script_args",
    ),
    Case(
        operator="RedshiftDataOperator",
        api="redshift_data",
        options=lambda submit: {
            "cluster_identifier": submit["ClusterIdentifier"],
            "database": submit["Database"],
            "db_user": submit["DbUser"],
            "sql": submit["Sql"],
            "poll_interval": 0.01,
        },
        mapped="sql",
        has_token=True,
    ),
    _sagemaker("Processing"),
    _sagemaker("Training", print_log=False),
    _sagemaker("Transform"),
    Case(
        operator="StepFunctionStartExecutionOperator",
        api="step_functions",
        options=lambda submit: {
            "state_machine_arn": submit["stateMachineArn"],
            "state_machine_input": submit["input"],
        },
        mapped="state_machine_input",
        not_waiting={"deferrable": False},
        waits=False,
    ),
]
each_operator = pytest.mark.parametrize("case", CASES, ids=[case.operator for case in CASES])
WITHOUT_WAITING = ["plain", "crash after all is done", "crash in the window", "not waiting", "deferrable", "mapped"]


class Trial:
    """One operator, ours and theirs, and its service."""

    def __init__(self, case: Case, service: AwsService) -> None:
        self.case, self.service, self.jobs = case, service, service.jobs
        self.submit = SET_UP[case.api](service).submit

    def make(self, kind: Any, **options: Any) -> Any:
        own = {"resume_policy": AT_ONCE} if kind is self.ours else {}
        return kind(**{"task_id": "task", "retries": 3, **self.case.options(self.submit), **own, **options})

    @property
    def ours(self) -> Any:
        return getattr(ours, self.case.operator)

    def played(self, kind: Any, *scenarios: str, **options: Any) -> Any:
        return check_operator(
            partial(self.make, kind),
            self.jobs,
            scenarios=scenarios or None,
            same_as=partial(self.make, self.case.theirs),
            expand=self.case.mapped,
            normalise=comparable,
            seconds=30,  # the first call imports a lot
            grace=0.5,
            **options,
        )


@contextmanager
def trial(case: Case) -> Iterator[Trial]:
    with AwsService(JOB_APIS[case.api]) as service, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_AWS_DEFAULT", service.connection)
        patch.setattr(BatchClientHook, "delay", staticmethod(lambda *_: None))
        # A name that is in use gets the second of the time, and is asked for until that is over.
        seconds = count(int(time.time()))
        clock = SimpleNamespace(time_ns=lambda: next(seconds) * 10**9, monotonic=time.monotonic, time=time.time)
        patch.setattr(sagemaker, "time", clock)
        yield Trial(case, service)


def comparable(value: Any) -> str:
    """Without what differs in each run: times, the names of links, and what came with an answer over HTTP."""
    text = json.dumps(_without_metadata(value), default=repr, sort_keys=True)
    text = re.sub(r"datetime\.datetime\(.*?tzlocal\(\)\)|\d{4}-\d\d-\d\d[T ][\d:.]+(\+[\d:]+)?", "TIME", text)
    return re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", text)


def _without_metadata(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_metadata(each) for key, each in value.items() if key != "ResponseMetadata"}
    return [_without_metadata(each) for each in value] if isinstance(value, (list, tuple)) else value


@each_operator
def test_ours_makes_one_job_with_the_right_result_in_every_scenario(case: Case) -> None:
    with trial(case) as it:
        scenarios = [] if case.waits else WITHOUT_WAITING
        options = {"not_waiting": case.not_waiting, "deferrable": {"deferrable": True}, "event": {"status": "?"}}
        report = it.played(it.ours, *scenarios, **options)
    documented(report, "amazon", OURS, case.operator)
    assert {name: str(played) for name, played in report.problems.items()} == case.problems, f"\n{report}"


@each_operator
def test_theirs_makes_a_second_job_in_the_window(case: Case) -> None:
    with trial(case) as it:  # its deferrals are not played: they read the event of the trigger
        scenarios = [] if case.waits else [name for name in WITHOUT_WAITING if name != "deferrable"]
        report = it.played(case.theirs, *scenarios, not_waiting=case.not_waiting)
    documented(report, "amazon", OWN, case.operator)
    assert str(report["crash in the window"]) == "2 / 2 / 0, same result"


class AwsWorld(CrashWorld):
    """A task of a run of its own: what AWS has is kept, and tokens and names count for ever."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.task: TaskAttempt = task_context(run_id=f"run_{run}")
        self.jobs = 0

    def execute(self, it: Trial) -> Any:
        """One attempt: what it returns and pushes. It may die before and after the submit, and at each write."""
        self.task = self.task if self.attempt == 1 else self.task.retry()
        self.watch(self.task.task_store)
        made = it.make(it.ours)
        client, submit = made.hook.conn, it.service.api.submit
        send, watched = client._make_api_call, self.effect(submit)(client._make_api_call)
        client._make_api_call = lambda name, params: (watched if name == submit else send)(name, params)
        with self.task:
            text = json.dumps([made.execute(self.task.context), self.task.ti.xcoms], default=repr, sort_keys=True)
        self.jobs = len(it.jobs.jobs)
        for job in it.jobs.jobs:
            text = text.replace(str(job.id), "JOB")
        return comparable(json.loads(text))


def one_job(outcome: Any) -> None:
    assert outcome.world.jobs == 1


@each_operator
def test_there_is_one_job_whenever_ours_dies(case: Case) -> None:
    runs = count()
    with trial(case) as it:

        def world() -> AwsWorld:
            it.jobs.reset()
            it.jobs.follow([it.jobs.running, it.jobs.succeeded])
            return AwsWorld(next(runs))

        report = explore_crashes(
            lambda world: world.execute(it), oracle=[one_job, same_result], world=world, max_pairs=30
        )
    assert not report.findings
    assert report.pairs > 20


@each_operator
def test_a_token_with_other_arguments_is_an_error_that_says_so(case: Case) -> None:
    if not case.has_token:
        pytest.skip("the job is looked up by a name, whatever its arguments are")
    others = {"query": "select 2", "sql": "select 2", "execution_role_arn": "arn:aws:iam::123456789012:role/s"}
    other = {name: value for name, value in others.items() if name == case.mapped} or {"cluster": "default"}
    if case.operator == "EmrContainerOperator":
        other = {"name": "another"}
    if case.operator == "EcsRunTaskOperator":
        other = {"launch_type": "EC2"}
    with trial(case) as it:
        attempt = task_context()
        made = it.make(it.ours)

        def die(*_: Any) -> Any:
            raise KeyboardInterrupt

        made.job_notes = die  # right after the submit
        with attempt, pytest.raises(KeyboardInterrupt):
            made.execute(attempt.context)
        retry = attempt.retry()
        with retry, pytest.raises(JobInputsChangedError, match="with other parameters") as error:
            it.make(it.ours, **other).execute(retry.context)
        assert error.value.token == it.jobs.jobs[0].token
        assert len(it.jobs.jobs) == 1


@each_operator
def test_the_trigger_is_the_operators_own_and_can_be_made_again(case: Case) -> None:
    with trial(case) as it:
        attempt = task_context()
        with attempt, pytest.raises(TaskDeferred) as deferral:
            it.make(it.ours, deferrable=True).execute(attempt.context)
    path, arguments = deferral.value.trigger.serialize()  # type: ignore[union-attr]
    module, _, name = path.rpartition(".")
    assert module.startswith("airflow.providers.amazon.aws.triggers.")
    assert str(it.jobs.jobs[0].id) in str(arguments)
    assert getattr(import_module(module), name)(**arguments).serialize() == (path, arguments)


def test_all_operators_are_here() -> None:
    assert sorted(case.operator for case in CASES) == sorted(ours.__all__)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", TOKEN),
        ("n", f"n-{TOKEN}"),
        (TOKEN, TOKEN),
        (f"n-{TOKEN[:16]}{'f' * 16}", f"n-{TOKEN}"),  # of an earlier job of the task
        (f"n-{'f' * 32}", f"n-{'f' * 20}-{TOKEN}"),
        ("n" * 80, f"{'n' * 22}-{TOKEN}"),
    ],
)
def test_a_name_has_the_token_once_at_its_end(name: str, expected: str) -> None:
    assert with_token(name, TOKEN, most=55) == expected
