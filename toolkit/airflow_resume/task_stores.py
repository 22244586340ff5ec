"""How a running task finds its stores: Airflow's own, or those in the database of `[airflow_resume] state_url`.

Airflow has state stores from version 3.3 on. On any version, the setting `state_url` (or `state_conn_id`) says that
loops, jobs and watermarks keep their state in a database of your own. Where it is set, it is used, also on an Airflow
that has state stores, so that an upgrade of Airflow interrupts nothing. It is read when a task first needs a store.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_resume.attempt import AnyContext, Attempt, Epoch, Scope, current_attempt, current_context
from airflow_resume.configured import SECTION, configured
from airflow_resume.errors import AssetNotDeclaredError, BackendSettingError, NoStateStoreError, SupersededError
from airflow_resume.given import GivenStore
from airflow_resume.store import AccessorStandIn, StateStore, airflow_asset_store, wrapped

if TYPE_CHECKING:
    from airflow.sdk import Asset

    from airflow_resume.backends.attempt_store import AttemptStore
    from airflow_resume.backends.rows.value_table import ValueTable
    from airflow_resume.backends.values.writer import WritingAttempt

URL, CONNECTION = "state_url", "state_conn_id"


def open_task_store(context: AnyContext | None = None, store: StateStore | None = None) -> tuple[StateStore, Attempt]:
    """The store to use, and the attempt that uses it.

    Args:
        context: of the task; by default the context of the running task.
        store: used instead of the task's store; then no task need be running. One of Airflow's accessors, or a fake of
            one, is wrapped like the task's own.

    Raises:
        NoStateStoreError: there is neither a store nor a task.
    """
    given = None if store is None else wrapped(store, refused=SupersededError)
    if context is None:
        try:
            context = current_context()
        except NoStateStoreError:
            if given is None:
                raise
            return given, Attempt()
    return task_store(context) if given is None else given, current_attempt(context)


def task_store(context: AnyContext) -> StateStore:
    """The store of the running task instance.

    Raises:
        NoStateStoreError: the context has none, and no database is set for it.
        BackendSettingError: the setting cannot be used.
    """
    found = find_task_store(context)
    if found is None:
        raise NoStateStoreError(
            "This context has no task_state_store: only a task on Airflow 3.3 or newer has one.",
            f"On Airflow 3.0 to 3.2, set [{SECTION}] {URL} to the URL of a database, see docs/installing.md. Elsewhere,"
            " pass `store=`.",
        )
    return found


def find_task_store(context: AnyContext) -> StateStore | None:
    """The store that `task_store` returns, or None if the task has none."""
    accessor = context.get("task_state_store")
    if _may_be_replaced(accessor) and (place := state_place()) is not None and (ti := context.get("ti")) is not None:
        return GivenStore(_attempt_store(place, context, ti))
    return None if accessor is None else wrapped(accessor, refused=SupersededError)


def asset_store(context: AnyContext, asset: Asset) -> StateStore:
    """The store of an asset of the running task.

    Raises:
        AssetNotDeclaredError: the asset is not among the task's inlets and outlets.
    """
    if _may_be_replaced(context.get("task_state_store")) and (place := state_place()) is not None:
        task: Any = context.get("task") or getattr(context.get("ti"), "task", None)
        declared = [*(getattr(task, "inlets", None) or ()), *(getattr(task, "outlets", None) or ())]
        if not any(getattr(each, "name", None) == asset.name for each in declared):
            raise AssetNotDeclaredError(asset=asset.name)
        return GivenStore(_attempt_store(place, context, context.get("ti"), asset=asset.name))
    return airflow_asset_store(context, asset)


def _may_be_replaced(accessor: object) -> bool:
    """Whether the setting counts. The fakes and the mocks of a test, and stores of your own, are always used."""
    return accessor is None or (
        not isinstance(accessor, AccessorStandIn) and type(accessor).__module__.startswith("airflow.sdk.")
    )


@dataclass(frozen=True, kw_only=True)
class StatePlace:
    """The database that the setting names."""

    url: str | None
    conn_id: str | None
    codec: str | None

    def __repr__(self) -> str:
        return "<StatePlace>"  # the URL may have a password


def state_place() -> StatePlace | None:
    """The database for the state of all tasks; None if none is set.

    Raises:
        BackendSettingError: the setting cannot be read, or a URL and a connection are both set.
    """
    names = (URL, f"{URL}_cmd", f"{URL}_secret", CONNECTION, "backend_codec")
    # Cached by the environment, as in `deployment`: reading the configuration is slow.
    return _place_in(tuple(os.environ.get(f"AIRFLOW__AIRFLOW_RESUME__{name.upper()}") for name in names))


@lru_cache(maxsize=8)
def _place_in(_environment: tuple[str | None, ...]) -> StatePlace | None:
    url, conn_id = configured(URL), configured(CONNECTION)
    if url is None and conn_id is None:
        return None
    if url is not None and conn_id is not None:
        raise BackendSettingError(
            f"[{SECTION}] {URL} and {CONNECTION} are both set, and they may differ.", "Unset one of them.", setting=URL
        )
    return StatePlace(url=url, conn_id=conn_id, codec=configured("backend_codec"))


@lru_cache(maxsize=8)
def _values(place: StatePlace) -> ValueTable:
    from airflow_resume.backends.attempt_store import open_values

    return open_values(url=place.url, conn_id=place.conn_id, codec=place.codec)


def _attempt_store(place: StatePlace, context: AnyContext, ti: Any, asset: str | None = None) -> AttemptStore:
    from airflow_resume.backends.values.writer import attempt_of

    attempt = current_attempt(context)
    if attempt.scope.iteration is not None:  # all iterations would take each other's records for their own
        raise BackendSettingError(
            f"[{SECTION}] {URL} cannot keep the state of a task in a loop of tasks.",
            "Unset it: Airflow 3.4 has state stores, which tell the iterations apart.",
            setting=URL,
        )
    life = (attempt.try_number, attempt.epoch.run_started, attempt.epoch.clear_number)
    return _kept_store(place, attempt.scope, attempt_of(attempt, ti), life, asset)


@lru_cache(maxsize=32)
def _kept_store(
    place: StatePlace,
    scope: Scope,
    writer: WritingAttempt,
    life: tuple[int, str | None, int],
    asset: str | None,
) -> AttemptStore:
    """The same in all contexts of an attempt, so that its fence is written once."""
    from airflow_resume.backends.attempt_store import AttemptStore
    from airflow_resume.compat import AssetScope

    try_number, run_started, clear_number = life
    epoch = Epoch(try_number=try_number, run_started=run_started, clear_number=clear_number)
    scope_of_asset = None if asset is None else AssetScope(name=asset)
    return AttemptStore(values=_values(place), task=scope, writer=writer, epoch=epoch, asset=scope_of_asset)
