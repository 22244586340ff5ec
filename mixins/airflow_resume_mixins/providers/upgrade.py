"""Tasks of unchanged Dag files that become resumable, by the setting `[airflow_resume] upgrade`.

Theory of operation. An item of the setting names *twins* (see `twins`). A task of such an operator gets the
twin as its class; the object itself stays, with everything that refers to it (XComArgs, task groups, setups, variables
of the Dag file). A mapped task gets the twin as its `operator_class`.

Both get a class of their own, made from `Upgraded`, the twin and the class of the task. It has the name and the module
of the task's class, so that the Dag is serialised as before, and gets no other version. Python assigns another class to
an object only if both have the same layout, which a class takes from its first base: see `_layout`.

A task is left alone, with a line in the log that says why, where the twin would change what the task does.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_resume.compat import ResumableJobMixin as AirflowResumableJobMixin
from airflow_resume.errors import UpgradeError
from airflow_resume.jobs import ResumePolicy
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.reach import called_on_self, is_method, reached
from airflow_resume_mixins.providers.twins import PACK, Twin, Twins, twins_for
from airflow_resume_mixins.resumable_job import ResumableJobMixin

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.sdk.definitions.context import Context

log = get_logger(__name__)

_ENGINE = {ResumableJobMixin.__module__, f"{PACK}.provider_job"}
_OF_AIRFLOWS_MIXIN = {"get_job_result", "get_job_status", "is_job_active", "is_job_succeeded", "submit_job"}
"""Methods of an operator with Airflow's mixin that we call too."""
_COOPERATIVE = {"defer", "on_kill", "operator_extra_links", "post_execute", "pre_execute", "resume_execution"}
"""Methods of ours that call the next one, and what stays as it is: a task's class may have its own."""
_RUN = {"execute", "execute_complete", "resume_execution"}
"""What runs a task. A class that has its own of these may count on a job that has ended when the operator's returns."""


class Upgraded:
    """A base of the class of an upgraded task."""

    upgraded_by: ClassVar[str]
    """The item of the setting."""
    twin: ClassVar[type]

    def pre_execute(self, context: Context) -> None:
        """As in Airflow, which calls it before `execute`. It says that the task was upgraded."""
        log.info(
            "This task resumes, as [airflow_resume] upgrade has %s: %s.%s takes the place of %s.%s",
            self.upgraded_by,
            self.twin.__module__,
            self.twin.__qualname__,
            type(self).__module__,
            type(self).__qualname__,
        )
        super().pre_execute(context)  # type: ignore[misc]


class Verdict(Enum):
    """What became of a task."""

    UPGRADED = "upgraded"
    RESUMES = "resumes already"
    EXCEPTED = "excepted"
    LEFT_ALONE = "left alone"
    NOT_NAMED = "not named"
    """No item of the setting is for its class."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a task, and why."""

    verdict: Verdict
    reason: str = ""


# --- a Dag ----------------------------------------------------------------------------------------------------


def upgrade_dag(dag: DAG, items: Sequence[str], exceptions: Sequence[str] = ()) -> dict[str, Outcome]:
    """Upgrade the tasks that the setting names. What cannot be upgraded is left as it is, and said in the log.

    Args:
        dag: as its file has made it.
        items: of the setting `upgrade`.
        exceptions: of the setting `upgrade_except`.

    Returns:
        What became of each task, by its id.
    """
    twins = twins_for(items, {task.operator_class for task in dag.tasks})
    for wrong in twins.errors:
        log.error("%s", wrong)
    return {task.task_id: _upgrade_or_say_why(dag.dag_id, task, twins, exceptions) for task in dag.tasks}


def _upgrade_or_say_why(dag_id: str, task: Any, twins: Twins, exceptions: Sequence[str]) -> Outcome:
    twin, kind = twins.of(task.operator_class), task.operator_class
    if issubclass(kind, Upgraded):
        return Outcome(verdict=Verdict.UPGRADED, reason=kind.upgraded_by)
    if issubclass(kind, ResumableJobMixin):
        return Outcome(verdict=Verdict.RESUMES)
    if twin is None:
        return Outcome(verdict=Verdict.NOT_NAMED)
    full_id = f"{dag_id}.{task.task_id}"
    if found := next((name for name in exceptions if fnmatchcase(full_id, name) or fnmatchcase(dag_id, name)), None):
        return Outcome(verdict=Verdict.EXCEPTED, reason=found)
    try:
        reason, level = why_not(task, twin), logging.INFO
        if reason is None:
            _upgrade(task, twin)
            return Outcome(verdict=Verdict.UPGRADED, reason=twin.item)
    except Exception as error:  # noqa: BLE001  an error in a policy would be one of the whole Dag file
        reason, level = f"{type(error).__name__}: {error}", logging.ERROR
    wrong = UpgradeError(
        f"The task {full_id} of the class {kind.__qualname__} is not upgraded: {reason}",
        f"It runs as it is written. If that is meant, set [airflow_resume] upgrade_except = {full_id}",
        item=twin.item,
        task=full_id,
    )
    log.log(level, "%s", wrong)
    return Outcome(verdict=Verdict.LEFT_ALONE, reason=reason)


def why_not(task: Any, twin: Twin) -> str | None:
    """Why a task may not be upgraded; None if it may.

    Args:
        task: plain or mapped, of the twin's operator or of a subclass.
        twin: of its operator.
    """
    kind = task.operator_class
    own = kind.__mro__[: kind.__mro__.index(twin.operator)]
    clash = sorted({name for base in own for name in vars(base)} & ((_hooks(twin) - _COOPERATIVE) | _RUN))
    if clash:
        return (
            f"{kind.__qualname__} has its own {', '.join(clash)}, which may not fit {twin.kind.__qualname__}."
            f" Write class {kind.__name__}({twin.kind.__name__}, ...) yourself, or name a twin of it in the setting"
        )
    if lost := _overridden_in_vain(tuple(own), twin):
        return (
            f"{kind.__qualname__} has its own {', '.join(lost)}, which {twin.kind.__qualname__} does not call."
            f" Write class {kind.__name__}({twin.kind.__name__}, ...) yourself, or name a twin of it in the setting"
        )
    if option_of(task, "start_from_trigger"):
        return "it starts in the triggerer (start_from_trigger), without an execute that could submit its job"
    if option_of(task, "deferrable") and not hasattr(twin.kind, "job_trigger"):
        return f"it is deferrable, and {twin.kind.__qualname__} has no job_trigger: it would wait in its worker instead"
    return None


def _hooks(twin: Twin) -> set[str]:
    """What the twin has and the operator has not, or in another way."""
    ours = [base for base in twin.kind.__mro__ if base not in twin.operator.__mro__]
    return {name for base in ours for name in vars(base) if not name.startswith(("__", "_abc_"))}


@lru_cache(maxsize=1000)
def _overridden_in_vain(own: tuple[type, ...], twin: Twin) -> list[str]:
    """Methods of the operator that a user's class overrides, and that are not called if the job is waited for by us.

    Those count that the operator's `execute` may call, and of these not what the twin calls or declares.
    """
    upstream = twin.operator.__mro__[: twin.operator.__mro__.index(BaseOperator)]
    methods = {name for base in upstream for name, value in vars(base).items() if is_method(value)}
    overridden = {name for base in own for name in vars(base) if not name.startswith("_")}
    candidates = overridden & methods & reached(twin.operator, "execute")
    return sorted(candidates - {name for name in candidates if hasattr(BaseOperator, name)} - _called_by(twin))


def _called_by(twin: Twin) -> set[str]:
    ours = [base for base in twin.kind.__mro__[: twin.kind.__mro__.index(twin.operator)] if base is not Upgraded]
    recipe = [base for base in ours if base.__module__ not in _ENGINE]
    called = {name for base in recipe for value in vars(base).values() for name in called_on_self(value)}
    called = {name for name in called if not hasattr(ResumableJobMixin, name)}  # the engine waits in another way
    called |= set(getattr(twin.kind, "still_called", ()))
    if issubclass(twin.operator, AirflowResumableJobMixin):
        called |= _OF_AIRFLOWS_MIXIN
    return called.union(*(reached(twin.operator, name) for name in called))


def option_of(task: Any, name: str) -> Any:
    """The value of an option of a task, or the default of its class.

    Of a mapped one it is that of `expand`, if its values are known and one of them is true, that of `partial`, or that
    of the default arguments.

    Args:
        task: plain or mapped.
        name: of the option.
    """
    if not isinstance(task, MappedOperator):
        return getattr(task, name, None)
    mapped = task.expand_input.value
    values = mapped.get(name) if isinstance(mapped, Mapping) else None
    if isinstance(values, list | tuple):
        return next(filter(None, values), None)
    given = [task.partial_kwargs, task.partial_kwargs.get("default_args") or {}]
    given += [place.default_args for place in (task.task_group, task.dag) if place is not None]
    for base in task.operator_class.__mro__:
        parameter = inspect.signature(vars(base)["__init__"]).parameters.get(name) if "__init__" in vars(base) else None
        if parameter is not None:
            return next((each[name] for each in given if name in each), parameter.default)
    return task.partial_kwargs.get(name, getattr(task.operator_class, name, None))


def upgraded_class(kind: type, twin: Twin) -> type:
    """The class that a task gets.

    Args:
        kind: of the task.
        twin: of its operator.
    """
    return _made(kind, twin.kind, twin.item)


def _upgrade(task: Any, twin: Twin) -> None:
    kind = upgraded_class(task.operator_class, twin)
    if isinstance(task, MappedOperator):
        task.operator_class = kind
        return
    defaults = {"durable": True, "resume_policy": ResumePolicy()}  # as __init__ would have set them
    for name in defaults.keys() - vars(task).keys():
        object.__setattr__(task, name, defaults[name])
    object.__setattr__(task, "__class__", kind)


@lru_cache(maxsize=1000)
def _made(kind: type, twin: type, item: str) -> type:
    """The class of an upgraded task."""
    same = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    bases = (_layout(kind), Upgraded, twin, *(() if issubclass(twin, kind) else (kind,)))
    made = type(kind)(kind.__name__, bases, {**same, "upgraded_by": item, "twin": twin})
    # The mixin adds a link for a `job_url`. The links of a task are in the serialised Dag.
    made.operator_extra_links = inspect.getattr_static(kind, "operator_extra_links")  # type: ignore[attr-defined]
    return made


def _layout(kind: type) -> type:
    """An empty class with the layout of `kind`: that of its first base, and so on, that adds a `__dict__`."""
    while (base := kind.__base__) is not None and base.__dictoffset__:
        kind = base
    return type("Layout", (base or object,), {})
