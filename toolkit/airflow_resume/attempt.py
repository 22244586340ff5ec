"""Who is running: the scope of the task instance, the try, and the clear epoch.

State outlives retries, and in Airflow 3.3 it outlives a clear as well, so a record alone does not tell a retry
("go on") from a cleared task ("do it again"). The clear epoch does: `max_tries` never moves on a retry and moves on
a clear; `clear_number` of the run moves on a clear of any task of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from airflow_resume.errors import NameInUseError, NoStateStoreError

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

AnyContext: TypeAlias = "Context | Mapping[str, Any]"


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

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    max_tries: int = 0
    clear_number: int = 0

    def cleared_since(self, earlier: Epoch) -> Cleared:
        """Compare with the epoch that an earlier attempt saved."""
        if self.max_tries != earlier.max_tries:
            return Cleared.YES
        return Cleared.NO if self.clear_number == earlier.clear_number else Cleared.PERHAPS


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
        """What makes the task instance unlike any other, as JSON."""
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
    ask_state: Callable[[], str | None] = field(default=_not_known, compare=False)
    """Asks Airflow for the state of the task instance, such as `"running"`; None when it cannot be asked."""
    stats_tags: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Tags for metrics, as Airflow's own mixin has them."""

    @property
    def is_last(self) -> bool:
        """Whether Airflow will not try again if this attempt fails."""
        return self.try_number > self.epoch.max_tries

    def claim(self, now: datetime) -> Claim:
        """The claim of this attempt."""
        return Claim(try_number=self.try_number, at=now)

    @contextmanager
    def using(self, key: str) -> Iterator[None]:
        """Use a key for one job or loop of this attempt; after an error it may be used once more.

        Raises:
            NameInUseError: it was used already. The second user would be given what the first one left.
        """
        if key in self.names_in_use:
            raise NameInUseError(
                f"{key!r} is used twice in this task, and the second job or loop would take the first one's record for"
                f" its own. Give each its own name, such as name=f'orders-{{table}}'."
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
        raise NoStateStoreError from error


def current_attempt(context: AnyContext) -> Attempt:
    """The attempt that `context` belongs to. Keys that a context of a test leaves out get neutral values."""
    ti, dag_run = context.get("ti"), context.get("dag_run")
    if ti is None:
        return Attempt()
    map_index = getattr(ti, "map_index", -1)
    epoch = Epoch(
        max_tries=getattr(ti, "max_tries", None) or 0,
        clear_number=getattr(dag_run, "clear_number", None) or 0,
    )
    retries = getattr(getattr(ti, "task", None), "retries", None)
    scope = Scope(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if map_index is None else map_index,
    )
    return Attempt(
        scope=scope,
        try_number=ti.try_number,
        epoch=epoch,
        uncleared=epoch if retries is None else epoch.model_copy(update={"max_tries": retries}),
        retries=retries,
        names_in_use=_names_used_with(context.get("task_state_store")),
        ask_state=partial(_state_in_airflow, ti, scope),
        stats_tags=_stats_tags(ti),
    )


def _state_in_airflow(ti: Any, scope: Scope) -> str | None:
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
    return None if state is None else str(getattr(state, "value", state))


def _stats_tags(ti: Any) -> dict[str, str]:
    tags = {"operator": type(getattr(ti, "task", None)).__name__}
    team: str | None = (getattr(ti, "stats_tags", None) or {}).get("team_name")
    return tags if team is None else {**tags, "team_name": team}
