"""Who is running: the scope of the task instance, the try, and the clear epoch.

State is kept across retries, and in Airflow 3.3 across a clear as well. So a record alone does not tell a retry
("continue") from a cleared task ("do it again"). The clear epoch does: a retry never changes `max_tries`, and a clear
does; `clear_number` of the run changes when any task of the run is cleared.

A clear sets `max_tries` to the number of tries so far plus the task's retries. If `retries` was reduced by the number
of tries so far, `max_tries` stays the same. Then the start of the Dag run may show the clear: it changes when a task of
a finished run is cleared. See `Attempt.cleared_since`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from airflow_resume.errors import NoStateStoreError, UsageError

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

AnyContext: TypeAlias = "Context | Mapping[str, Any]"
DefaultT = TypeVar("DefaultT", int, None)


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(tz=timezone.utc)


def _written_moment(moment: object) -> object:
    """Refuse other forms that pydantic would accept, such as a number of seconds since 1970."""
    if isinstance(moment, (datetime, str)) and (isinstance(moment, datetime) or _MOMENT.match(moment)):
        return moment
    raise ValueError("a time is a text such as 2026-01-01T00:00:00Z")


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")


def _checked_moment(moment: datetime) -> datetime:
    moment.astimezone(timezone.utc)  # fails for some moments of the first and the last day of the calendar
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_written_moment), AfterValidator(_checked_moment)]
"""A point in time in a record: it has a zone, and can be converted to UTC."""
Whole = Annotated[int, Field(strict=True)]
"""A whole number in a record. `"-0"`, 1.0 and True do not count."""
Count = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
"""True or False in a record, and not 1 or "yes"."""


def _is_true(value: object) -> object:
    if value is not True:
        raise ValueError("it is true, or left out")
    return value


Yes: TypeAlias = Annotated[Literal[True], BeforeValidator(_is_true)]
"""A flag in a record: true, or left out."""


def _checked_start(start: str) -> str:
    if datetime.fromisoformat(start).tzinfo is None:
        raise ValueError("a time needs its zone")
    return start


class Cleared(Enum):
    """Was the task cleared since a record was written?"""

    NO = "no"
    PERHAPS = "perhaps"
    """A task of the run was cleared, and it is not known whether it was this one. It is treated as a retry."""
    YES = "yes"


class Epoch(BaseModel):
    """The values that distinguish a clear from a retry."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    max_tries: Annotated[int, Field(strict=True, ge=-1)] = 0  # Airflow has -1 for what has never run
    clear_number: Count = 0
    try_number: Count | None = Field(default=None, validation_alias="try", serialization_alias="try")
    """The try in which these values were read; None in records of version 0.1."""
    run_started: Annotated[str, AfterValidator(_checked_start)] | None = None
    """When the Dag run started. It stays the same while tasks of the run are retried, cleared or deferred. It changes
    when a task of a finished run is cleared, and when the run is deleted and created again. None if it is not known.
    """


class Claim(BaseModel):
    """The attempt that last claimed a record, and when."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    try_number: Count = Field(validation_alias="try", serialization_alias="try")
    at: Moment


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The task instance that state belongs to.

    Args:
        dag_id, run_id, task_id, map_index: as Airflow has them.
        iteration: of a task in a loop of tasks (Airflow 3.4): the region and the index in it. None outside such a loop.
    """

    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    map_index: Whole = -1
    iteration: str | None = None

    def identity(self) -> list[str | int]:
        """What identifies the task instance within this deployment, as JSON.

        If a Dag run is deleted and created again with the same run id, its tasks have the same identity.
        """
        known: list[str | int] = [self.dag_id, self.run_id, self.task_id, self.map_index]
        return known if self.iteration is None else [*known, self.iteration]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of one task instance. Outside a task every field has a neutral value."""

    scope: Scope = Scope()
    try_number: int = 1
    epoch: Epoch = field(default_factory=Epoch)
    uncleared: Epoch = field(default_factory=Epoch)
    """What `epoch` would be if the task had never been cleared."""
    retries: int | None = None
    """The retries of the task; None when they are not known."""
    names_in_use: set[str] = field(default_factory=set, compare=False)
    """Outside a task always empty, as there a script resumes by using a name again."""
    process: object = field(default=None, compare=False)
    """The task's store: the same object in all contexts of one attempt, and another object in every other attempt."""
    ask_state: Callable[[], str | None] = field(default=lambda: None, compare=False)
    """Asks Airflow for the state of the task instance, such as `"running"`; None when it cannot be asked."""
    stats_tags: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Tags for metrics, as Airflow's own mixin has them."""
    started: datetime | None = field(default=None, compare=False)
    """When the task began, by the clock of its worker. After a deferral, it is when the try began."""

    @property
    def has_identity(self) -> bool:
        """Whether this is a task instance, and not a script."""
        return bool(self.scope.dag_id and self.scope.run_id and self.scope.task_id)

    @property
    def is_last(self) -> bool:
        """Whether Airflow will not try again if this attempt fails."""
        return self.try_number > self.epoch.max_tries

    def cleared_since(self, earlier: Epoch, earlier_try: int, *, ended: bool) -> Cleared:
        """Compare with the epoch that an earlier attempt saved.

        Args:
            earlier: the epoch.
            earlier_try: the try that last claimed the record, for an epoch that does not know its try.
            ended: the work on record is done, so a retry is unlikely.

        If `max_tries` has changed, the task was cleared. If not, it can only have been cleared if some task of the run
        was, and if this is a later try. Then the start of the run tells: it changes when a task of a finished run is
        cleared, and only the cleared tasks of such a run start again. In a run that has not finished, `max_tries` may
        be the number that a clear sets (the tries so far, plus the present retries). A retry after an edit of `retries`
        and a clear of another task looks the same, so this counts only if the work is done.
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
        """Reserve a key for one job or loop of this attempt; after an error it may be used again.

        Args:
            key: of the record.
            remedy: what to do if a key is used twice and cannot be named by the user.

        Raises:
            UsageError: it was used already. The second user would resume from the record of the first one.
        """
        if key in self.names_in_use:
            raise UsageError(
                f"{key!r} is used twice in this task: the second job or loop would resume from the record of the"
                " first one.",
                remedy or "Give each its own name, such as name=f'orders-{table}'.",
                name=key,
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
"""By the task's store, which is another object in every attempt, and the same in all contexts of one attempt."""


class _Owner:
    """Stands for the task's store where the context has none."""


@lru_cache(maxsize=64)
def _owner_of(_attempt_id: UUID, _try_number: int) -> _Owner:
    return _Owner()


def current_context() -> AnyContext:
    """The context of the running task.

    Raises:
        NoStateStoreError: no task is running.
    """
    from airflow.sdk import get_current_context

    try:
        return get_current_context()
    except RuntimeError as error:
        if "AIRFLOW_CTX_DAG_ID" in os.environ:  # Airflow passes it to the processes that a task starts
            raise NoStateStoreError(
                "This process was started by a task, as with @task.virtualenv or @task.external_python, and cannot"
                " access Airflow's state.",
                "Call it from a plain @task, or pass `store=` with a store that outlives the process, such as"
                " SqlStateStore.",
            ) from error
        raise NoStateStoreError from error


def in_task() -> bool:
    """Whether a task is running here, so that somebody can clear it."""
    try:
        return current_attempt(current_context()).has_identity
    except NoStateStoreError:
        return False


def how_to_start_over(*, is_task: bool | None = None) -> str:
    """How a person makes a loop start over, for a remedy.

    Args:
        is_task: whether there is a task; by default that is found out.
    """
    return "clear the task" if (in_task() if is_task is None else is_task) else "pass restart=True"


def how_to_delete_a_key() -> str:
    """How a person deletes a record, for a remedy."""
    return "delete the key in Airflow's UI and clear the task" if in_task() else "delete the key from the store"


def current_attempt(context: AnyContext) -> Attempt:
    """The attempt that `context` belongs to.

    Fields that the context of a test leaves out get neutral values, and so do mocks: only an int counts as a number,
    and only a str as text.
    """
    ti, dag_run = context.get("ti"), context.get("dag_run")
    if ti is None:
        return Attempt()
    try_number = _number(ti, "try_number", 1)
    started = getattr(dag_run, "start_date", None)
    # In UTC, so that the same time in another zone is the same text.
    run_started = started.astimezone(timezone.utc).isoformat() if isinstance(started, datetime) else None

    def epoch_of(max_tries: int) -> Epoch:
        return Epoch(
            max_tries=max_tries,
            clear_number=_number(dag_run, "clear_number", 0),
            try_number=try_number,
            run_started=run_started,
        )

    epoch = epoch_of(_number(ti, "max_tries", 0))
    retries = _number(getattr(ti, "task", None), "retries", None)
    scope = Scope(
        dag_id=_text(ti, "dag_id"),
        run_id=_text(ti, "run_id"),
        task_id=_text(ti, "task_id"),
        map_index=_number(ti, "map_index", -1),
        iteration=_iteration(context, ti),
    )
    store = context.get("task_state_store")
    if store is None and isinstance(attempt_id := getattr(ti, "id", None), UUID):
        store = _owner_of(attempt_id, try_number)
    try:
        names_in_use = _names_in_use.setdefault(store, set())
    except TypeError:  # a store that cannot be a key, such as None
        names_in_use = set()
    tags = {"operator": type(getattr(ti, "task", None)).__name__}
    team: object = (getattr(ti, "stats_tags", None) or {}).get("team_name")
    return Attempt(
        scope=scope,
        try_number=try_number,
        epoch=epoch,
        uncleared=epoch if retries is None or retries == epoch.max_tries else epoch_of(retries),
        retries=retries,
        names_in_use=names_in_use,
        process=store,
        ask_state=partial(state_in_airflow, ti, scope),
        stats_tags={**tags, "team_name": team} if isinstance(team, str) else tags,
        started=task_started if isinstance(task_started := getattr(ti, "start_date", None), datetime) else None,
    )


def _number(holder: object, name: str, otherwise: DefaultT) -> int | DefaultT:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _iteration(context: AnyContext, ti: object) -> str | None:
    """The iteration of a loop of tasks, which Airflow 3.4 has in the context of its tasks.

    All iterations have the same Dag, run, task and map index. A clear gives the repeated iterations another region. A
    mapped task outside a loop has a region too, which is not needed: its map index tells its instances apart.
    """
    region = getattr(ti, "region_id", None)
    if context.get("loop") is None or not isinstance(region, UUID):
        return None
    return f"{region}:{_number(ti, 'region_index', None)}"


def _text(holder: object, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


def state_in_airflow(ti: Any, scope: Scope) -> str | None:
    """The state of the task instance; None if this Airflow cannot be asked, or does not know it."""
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
