"""What is known of a task: the facts for `dag_findings`. Nothing is run, and nothing is asked of another system."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, BaseSensorOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_resume.compat import ResumableJobMixin as AirflowResumableJobMixin
from airflow_resume_mixins.dag_findings import Kind, TaskFacts
from airflow_resume_mixins.providers import ProviderJob
from airflow_resume_mixins.providers.reach import reached
from airflow_resume_mixins.providers.twins import PACK, Twin, pack, twins_for
from airflow_resume_mixins.providers.upgrade import Outcome, Verdict, option_of, upgraded_class, why_not
from airflow_resume_mixins.resumable_job import ResumableJobMixin

REATTACHING: Mapping[str, tuple[str, str]] = {
    "AzureBatchOperator": ("batch_task_id", ""),
    "DataprocCreateBatchOperator": ("batch_id", ""),
    "EcsRunTaskOperator": ("reattach", ""),
    "KubernetesJobOperator": ("", ""),
    "KubernetesPodOperator": (
        "reattach_on_restart",
        "Remove durable=False or reattach_on_restart=False: it finds its pod in its own way.",
    ),
}
"""Operators that look for their job themselves, with their subclasses, if the argument is set; and what to do if it is
not. The first of the bases counts: a Kubernetes job is made anew by each attempt, although its class is that of a pod.
"""
OPEN_WINDOW: Mapping[str, str] = {
    "AirbyteTriggerSyncOperator": "Airbyte offers nothing to find a job by: resume_policy.on_lost_submission decides.",
    "AzureDataFactoryRunPipelineOperator": "Name a parameter of the pipeline as token_parameter: docs/providers.md.",
}
"""What to do about operators of the pack that may not find their job."""
ENDS_WITH_THE_TASK = {"SparkSqlOperator", "SSHOperator"}
"""Operators whose work is done by a child of the task, or at the other end of its connection."""
LEAVES_THE_JOB: Mapping[str, object] = {
    "cancel_on_kill": False,
    "on_kill_action": "keep_pod",
    "stop_job_run_on_kill": False,
}
"""Arguments with which an `on_kill` does not cancel."""
ASKS_ONCE: Mapping[str, tuple[str, object]] = {"LivyOperator": ("polling_interval", 0)}
"""Operators with Airflow's mixin that do not use it if an argument has this value."""
JOB_TIMES: Mapping[str, str] = {"DbtCloudRunJobOperator": "timeout"}
"""Arguments that say for how many seconds the job may run, if they are given."""
OF_THE_WORKER = ("airflow.providers.standard.", "airflow.providers.common.", "airflow.sdk.")
"""Modules whose operators work in the process of the task, or in a child of it."""
WITH_THE_TASK = "ends with the task"
"""The end of a `cannot_resume` if no job is left behind."""


def facts_of(task: Any, outcome: Outcome | None = None) -> TaskFacts:
    """What is known of a task.

    Args:
        task: plain or mapped.
        outcome: of the setting.
    """
    kind: type = task.operator_class
    resume_policy = option_of(task, "resume_policy")
    twin = twins_for(pack(), {kind}).of(kind)
    reason, doubt = _cannot_resume(task, twin)
    works = _kind(task, is_known=twin is not None, cannot_resume=reason)
    left_alone = outcome.reason if outcome is not None and outcome.verdict is Verdict.LEFT_ALONE else None
    return TaskFacts(
        kind=works,
        retries=option_of(task, "retries") or 0,
        deferrable=_defers(task, works),
        has_trigger=hasattr(kind, "job_trigger"),
        reschedules=getattr(resume_policy, "wait", None) == "reschedule",
        closes_window=_finds_its_job(kind),
        durable=option_of(task, "durable") is not False,
        cancels_on_kill=_cancels_on_kill(task),
        ends_on_deploy="shutdown" in getattr(resume_policy, "cancel_on", ()),
        execution_timeout=option_of(task, "execution_timeout"),
        job_time=_job_time(task, resume_policy),
        item=None if twin is None else twin.of_one_class().item,
        left_alone=left_alone,
        would_not=None if twin is None or issubclass(kind, ResumableJobMixin) else why_not(task, twin),
        cannot_resume=None if works is Kind.REATTACHES else reason,
        doubt=doubt,
        advice=_advice(kind),
        operator=kind.__name__,
    )


def _cannot_resume(task: Any, twin: Twin | None) -> tuple[str | None, str | None]:
    """Why a class of ours would not resume with these arguments, and why that is not known here.

    Args:
        task: upgraded, of a class of ours, or not yet.
        twin: of its operator.
    """
    given: type = task.operator_class
    kind = given if twin is None or issubclass(given, ProviderJob) else upgraded_class(given, twin)
    if not issubclass(kind, ProviderJob) or kind.cannot_resume is ProviderJob.cannot_resume:
        return None, None
    try:
        plain = _unmapped(task) if isinstance(task, MappedOperator) else task
        asked = object.__new__(kind)
        vars(asked).update(vars(plain))  # a copy: what is asked may set something
        return asked.cannot_resume(), None
    except Exception as error:  # noqa: BLE001  it may ask for a connection that is not there
        return None, f"{type(error).__name__}: {error}"


def _unmapped(task: MappedOperator) -> BaseOperator:
    values: Any = task.expand_input.value
    if not isinstance(values, Mapping) or not all(
        isinstance(value, list | tuple) and value for value in values.values()
    ):
        raise ValueError("what it is mapped over is known only then")
    return task.unmap({name: value[0] for name, value in values.items()})


def _kind(task: Any, *, is_known: bool, cannot_resume: str | None) -> Kind:
    kind: type = task.operator_class
    if cannot_resume is None and issubclass(kind, ResumableJobMixin):
        return Kind.OURS
    if (argument := _reattaching(kind)[0]) and option_of(task, argument):
        return Kind.REATTACHES
    if cannot_resume is not None:
        return Kind.LOCAL if cannot_resume.endswith(WITH_THE_TASK) else Kind.JOB
    if issubclass(kind, AirflowResumableJobMixin) and _uses_airflows_mixin(task):
        return Kind.AIRFLOWS
    if issubclass(kind, BaseSensorOperator):
        return Kind.SENSOR
    return _kind_by_its_looks(kind, is_known=is_known)


def _kind_by_its_looks(kind: type, *, is_known: bool) -> Kind:
    if {base.__name__ for base in kind.__mro__} & ENDS_WITH_THE_TASK or not (is_known or _leaves_the_worker(kind)):
        return Kind.LOCAL
    return Kind.JOB if is_known or _waits(kind) else Kind.REQUEST


def _uses_airflows_mixin(task: Any) -> bool:
    asks_once = (ASKS_ONCE[base.__name__] for base in task.operator_class.__mro__ if base.__name__ in ASKS_ONCE)
    if any(_given(task, name) == value for name, value in asks_once):
        return False
    return "execute_resumable" in reached(task.operator_class, "execute")


def _given(task: Any, name: str) -> Any:
    """An argument, which an operator may keep as a private attribute."""
    value = option_of(task, name)
    return option_of(task, f"_{name}") if value is None else value


def _reattaching(kind: type) -> tuple[str, str]:
    return next((REATTACHING[base.__name__] for base in kind.__mro__ if base.__name__ in REATTACHING), ("", ""))


def _advice(kind: type) -> str:
    if issubclass(kind, ResumableJobMixin):
        return next((OPEN_WINDOW[base.__name__] for base in kind.__mro__ if base.__name__ in OPEN_WINDOW), "")
    return _reattaching(kind)[1]


def _own_classes(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if issubclass(base, BaseOperator) and base is not BaseOperator]


def _leaves_the_worker(kind: type) -> bool:
    """Whether it looks like an operator that asks another system: it can defer, or has something to cancel."""
    own = _own_classes(kind)
    if any(base.__module__.startswith(OF_THE_WORKER) for base in own):
        return False
    return _has_own_on_kill(kind) or any("execute_complete" in vars(base) for base in own)


def _waits(kind: type) -> bool:
    """Whether it looks like an operator with a job: there is something to cancel, or an argument about waiting."""
    inits = (vars(base)["__init__"] for base in _own_classes(kind) if "__init__" in vars(base))
    arguments = {name for init in inits for name in inspect.signature(init).parameters}
    return _has_own_on_kill(kind) or any("wait" in name or "polling" in name for name in arguments)


def _defers(task: Any, works: Kind) -> bool:
    deferrable = option_of(task, "deferrable")
    if deferrable is None and works in {Kind.JOB, Kind.REQUEST} and not hasattr(task, "deferrable"):
        return "defer" in reached(task.operator_class, "execute")  # it always does
    return bool(deferrable)


def _cancels_on_kill(task: Any) -> bool:
    kind: type = task.operator_class
    names = {base.__name__ for base in kind.__mro__}
    switches = {name: value for name, value in LEAVES_THE_JOB.items() if "KubernetesJobOperator" not in names}
    given = {name: option_of(task, name) for name in switches}
    leaves = any(getattr(value, "value", value) == switches[name] for name, value in given.items() if value is not None)
    return _has_own_on_kill(kind) and not leaves


def _has_own_on_kill(kind: type) -> bool:
    return any(
        "on_kill" in vars(base)
        and base is not ResumableJobMixin
        and not base.__module__.startswith(("airflow.sdk.", f"{PACK}.provider_job"))
        for base in kind.__mro__
    )


def _finds_its_job(kind: type) -> bool:
    has = any(getattr(kind, name, None) is not None for name in ("find_job", "find_jobs"))
    return has or bool(getattr(kind, "submission_is_idempotent", False))


def _job_time(task: Any, resume_policy: Any) -> timedelta | None:
    """How long the job may take: by the policy, or by an argument that many operators have."""
    poll = getattr(resume_policy, "poll", None)
    if (timeout := getattr(poll, "timeout", None)) is not None:
        return timeout  # type: ignore[no-any-return]
    seconds = _given_job_time(task) or option_of(task, "timeout_seconds")
    attempts, delay = option_of(task, "waiter_max_attempts"), option_of(task, "waiter_delay")
    if seconds is None and isinstance(attempts, int) and isinstance(delay, int | float):
        seconds = attempts * delay
    return timedelta(seconds=seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _given_job_time(task: Any) -> Any:
    for base in task.operator_class.__mro__:
        if (name := JOB_TIMES.get(base.__name__)) is not None and not issubclass(base, ResumableJobMixin):
            value = option_of(task, name)
            return None if value == inspect.signature(vars(base)["__init__"]).parameters[name].default else value
    return None
