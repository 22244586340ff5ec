"""Who is running: the scope of the task instance, the try, and the clear epoch.

State outlives retries, and in Airflow 3.3 it outlives a clear as well, so a record alone does not tell a retry
("go on") from a cleared task ("do it again"). The clear epoch does: `max_tries` never moves on a retry and moves on
a clear; `clear_number` of the run moves on a clear of any task of the run.

`max_tries` becomes the number of tries so far plus the task's retries. Where retries were edited down by as many, it
stays the same number. Then the start of the Dag run tells, which moves when a task of a finished run is cleared; see
`Attempt.cleared_since`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from airflow_resume.errors import NameInUseError, NoStateStoreError

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

AnyContext: TypeAlias = "Context | Mapping[str, Any]"
DefaultT = TypeVar("DefaultT", int, None)


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(tz=timezone.utc)


class Cleared(Enum):
    """Was the task cleared since a record was written?"""

    NO = "no"
    PERHAPS = "perhaps"
    """Some task of the run was cleared, and that it was this one cannot be told: treat it as a retry."""
    YES = "yes"


class Epoch(BaseModel):
    """What moves when a task is cleared."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    max_tries: int = 0
    clear_number: int = 0
    try_number: int | None = Field(default=None, validation_alias="try", serialization_alias="try")
    """In which try this was so; None in records of version 0.1."""
    run_started: str | None = None
    """When the Dag run started. It stays while anything of the run is tried again, cleared or deferred; it moves when a
    task of a run that had finished is cleared, and a run that is deleted and made again has another one. None where it
    is not known.
    """


class Claim(BaseModel):
    """The attempt that last took hold of a record, and when."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    try_number: int = Field(validation_alias="try", serialization_alias="try")
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The task instance that state belongs to."""

    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    map_index: int = -1

    def identity(self) -> list[str | int]:
        """What makes the task instance unlike any other of this deployment, as JSON.

        A Dag run that is deleted and made again with its run id has the same.
        """
        return [self.dag_id, self.run_id, self.task_id, self.map_index]


def _not_known() -> None:
    """Outside a task, and in a context that a test made by hand."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of one task instance; outside a task, a try of nothing in particular."""

    scope: Scope = Scope()
    try_number: int = 1
    epoch: Epoch = field(default_factory=Epoch)
    uncleared: Epoch = field(default_factory=Epoch)
    """What `epoch` would be if the task had never been cleared."""
    retries: int | None = None
    """Of the task; None when it is not known."""
    names_in_use: set[str] = field(default_factory=set, compare=False)
    """Outside a task always empty: there, using a name again is how a script resumes."""
    process: object = field(default=None, compare=False)
    """The task's store: the same object in all contexts of one attempt, and another in every other one."""
    ask_state: Callable[[], str | None] = field(default=_not_known, compare=False)
    """Asks Airflow for the state of the task instance, such as `"running"`; None when it cannot be asked."""
    stats_tags: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Tags for metrics, as Airflow's own mixin has them."""

    @property
    def has_identity(self) -> bool:
        """Whether this is a task instance, and no script."""
        return bool(self.scope.dag_id and self.scope.run_id and self.scope.task_id)

    @property
    def is_last(self) -> bool:
        """Whether Airflow will not try again if this attempt fails."""
        return self.try_number > self.epoch.max_tries

    def cleared_since(self, earlier: Epoch, earlier_try: int, *, ended: bool) -> Cleared:
        """Compare with the epoch that an earlier attempt saved.

        Args:
            earlier: the epoch.
            earlier_try: that claimed the record last, for an epoch that does not know its try.
            ended: the work on record is done, so that there was hardly a reason for a mere retry.

        `max_tries` that has moved says it. If it has not, some task of the run must have been cleared and this be a
        later try. Then the start of the run says it: that moves when a task of a finished run is cleared, and of those
        only the cleared ones run again. In a run that has not finished, `max_tries` may still be what a clear makes of
        it (the tries until then, and the retries there are now). That is how a retry after an edit of `retries` and a
        clear of another task looks too, so it counts only where the work is done.
        """
        since = earlier.try_number or earlier_try
        if self.epoch.max_tries != earlier.max_tries:
            return Cleared.YES
        if self.epoch.clear_number == earlier.clear_number:
            return Cleared.NO
        run_had_finished = None not in (started := {self.epoch.run_started, earlier.run_started}) and len(started) > 1
        could_be_made_by_a_clear = self.retries is not None and self.epoch.max_tries - self.retries in range(
            since, self.try_number
        )
        is_later = self.try_number > since
        was_this_task = is_later and (run_had_finished or (ended and could_be_made_by_a_clear))
        return Cleared.YES if was_this_task else Cleared.PERHAPS

    def claim(self, now: datetime) -> Claim:
        """The claim of this attempt."""
        return Claim(try_number=self.try_number, at=now)

    @contextmanager
    def using(self, key: str, *, remedy: str | None = None) -> Iterator[None]:
        """Use a key for one job or loop of this attempt; after an error it may be used once more.

        Args:
            key: of the record.
            remedy: what to do about a key that is used twice, where names cannot be given.

        Raises:
            NameInUseError: it was used already. The second user would be given what the first one left.
        """
        if key in self.names_in_use:
            raise NameInUseError(
                f"{key!r} is used twice in this task: the second job or loop would take the first one's record for its"
                " own.",
                remedy or "Give each its own name, such as name=f'orders-{table}'.",
            )
        self.names_in_use.add(key)
        try:
            yield
        except BaseException:
            self.give_back(key)
            raise

    def give_back(self, key: str) -> None:
        """Allow the key to be used again."""
        self.names_in_use.discard(key)


_names_in_use: WeakKeyDictionary[object, set[str]] = WeakKeyDictionary()
"""By the task's store: every attempt has another one, and it is the same in all contexts of one attempt."""


def _names_used_with(store: object) -> set[str]:
    try:
        return _names_in_use.setdefault(store, set())
    except TypeError:  # a store that cannot be a key, such as None, is not looked after
        return set()


def current_context() -> AnyContext:
    """The context of the running task.

    Raises:
        NoStateStoreError: no task is running.
    """
    from airflow.sdk import get_current_context

    try:
        return get_current_context()
    except RuntimeError as error:
        if "AIRFLOW_CTX_DAG_ID" in os.environ:  # Airflow hands it to the processes that a task starts
            raise NoStateStoreError(
                "This process was started by a task, as under @task.virtualenv or @task.external_python, and has no way"
                " to Airflow's state.",
                "Call it from a plain @task, or pass `store=` with a store that outlives the process, such as"
                " SqlStateStore.",
            ) from error
        raise NoStateStoreError from error


def current_attempt(context: AnyContext) -> Attempt:
    """The attempt that `context` belongs to.

    What a context of a test leaves out gets a neutral value, and so does what a mock answers: there only an int counts
    as a number, and only a str as text.
    """
    ti, dag_run = context.get("ti"), context.get("dag_run")
    if ti is None:
        return Attempt()
    try_number = _number(ti, "try_number", 1)
    epoch = Epoch(
        max_tries=_number(ti, "max_tries", 0),
        clear_number=_number(dag_run, "clear_number", 0),
        try_number=try_number,
        run_started=_iso(getattr(dag_run, "start_date", None)),
    )
    retries = _number(getattr(ti, "task", None), "retries", None)
    scope = Scope(
        dag_id=_text(ti, "dag_id"),
        run_id=_text(ti, "run_id"),
        task_id=_text(ti, "task_id"),
        map_index=_number(ti, "map_index", -1),
    )
    return Attempt(
        scope=scope,
        try_number=try_number,
        epoch=epoch,
        uncleared=epoch if retries in {None, epoch.max_tries} else epoch.model_copy(update={"max_tries": retries}),
        retries=retries,
        names_in_use=_names_used_with(context.get("task_state_store")),
        process=context.get("task_state_store"),
        ask_state=partial(state_in_airflow, ti, scope),
        stats_tags=_stats_tags(ti),
    )


def _number(holder: object, name: str, otherwise: DefaultT) -> int | DefaultT:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _iso(moment: object) -> str | None:
    """A time in UTC as text, the same for the same time in any zone."""
    return moment.astimezone(timezone.utc).isoformat() if isinstance(moment, datetime) else None


def _text(holder: object, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


def state_in_airflow(ti: Any, scope: Scope) -> str | None:
    """The state of the task instance; None where this Airflow has no way to ask, or does not know it."""
    ask = getattr(ti, "get_task_states", None)
    if ask is None:
        return None
    mapped = scope.map_index >= 0
    states = ask(
        dag_id=scope.dag_id,
        task_ids=[scope.task_id],
        run_ids=[scope.run_id],
        map_index=scope.map_index if mapped else None,
    )
    state = states.get(scope.run_id, {}).get(f"{scope.task_id}_{scope.map_index}" if mapped else scope.task_id)
    state = getattr(state, "value", state)
    return state if isinstance(state, str) else None


def _stats_tags(ti: Any) -> dict[str, str]:
    tags = {"operator": type(getattr(ti, "task", None)).__name__}
    team: object = (getattr(ti, "stats_tags", None) or {}).get("team_name")
    return {**tags, "team_name": team} if isinstance(team, str) else tags
