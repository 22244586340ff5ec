# ruff: noqa: PLC0414  the alias tells type checkers that a name may be imported from here
"""The names of Airflow's Task SDK that are elsewhere, or not there at all, before Airflow 3.3.

All other modules import these names from here. What is decided is only whether a name can be imported, never the
version. Airflow 3.0 and 3.1 have the exceptions in `airflow.exceptions`; 3.0 to 3.2 have no state stores and no
`ResumableJobMixin`, so this module has stand-ins for the classes that ours inherit from.

Names that few Dag files need are imported when they are first asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseHook as BaseHook
    from airflow.sdk import ResumableJobMixin as ResumableJobMixin
    from airflow.sdk.api.client import get_hostname as get_hostname
    from airflow.sdk.configuration import conf as conf
    from airflow.sdk.exceptions import AirflowException as AirflowException
    from airflow.sdk.exceptions import AirflowFailException as AirflowFailException
    from airflow.sdk.exceptions import AirflowRescheduleException as AirflowRescheduleException
    from airflow.sdk.exceptions import AirflowSensorTimeout as AirflowSensorTimeout
    from airflow.sdk.exceptions import AirflowSkipException as AirflowSkipException
    from airflow.sdk.exceptions import AirflowTaskTimeout as AirflowTaskTimeout
    from airflow.sdk.exceptions import DagRunTriggerException as DagRunTriggerException
    from airflow.sdk.exceptions import TaskDeferralError as TaskDeferralError
    from airflow.sdk.exceptions import TaskDeferralTimeout as TaskDeferralTimeout
    from airflow.sdk.exceptions import TaskDeferred as TaskDeferred
    from airflow.sdk.execution_time.context import NEVER_EXPIRE as NEVER_EXPIRE
    from airflow.sdk.log import redact as redact  # type: ignore[attr-defined]
    from airflow.sdk.serde import deserialize as deserialize
    from airflow.sdk.serde import serialize as serialize
    from airflow.sdk.state import AssetScope as AssetScope
    from airflow.sdk.state import BaseStoreBackend as BaseStoreBackend
    from airflow.sdk.state import TaskScope as TaskScope
    from airflow.sdk.timezone import coerce_datetime as coerce_datetime


_PLACES = {
    "AirflowException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowFailException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowRescheduleException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowSensorTimeout": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowSkipException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "AirflowTaskTimeout": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "BaseHook": ("airflow.sdk", "airflow.hooks.base"),
    "DagRunTriggerException": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "TaskDeferralError": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "TaskDeferralTimeout": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "TaskDeferred": ("airflow.sdk.exceptions", "airflow.exceptions"),
    "coerce_datetime": ("airflow.sdk.timezone", "airflow.utils.timezone"),
    "conf": ("airflow.sdk.configuration", "airflow.configuration"),
    "deserialize": ("airflow.sdk.serde", "airflow.serialization.serde"),
    "get_hostname": ("airflow.sdk.api.client", "airflow.utils.net"),
    "serialize": ("airflow.sdk.serde", "airflow.serialization.serde"),
    "redact": ("airflow.sdk.log", "airflow.sdk.execution_time.secrets_masker"),
}
"""The module that has the name, and the one that had it before."""

_ONLY_NEWER = {
    "AssetScope": "airflow.sdk.state",
    "BaseStoreBackend": "airflow.sdk.state",
    "NEVER_EXPIRE": "airflow.sdk.execution_time.context",
    "ResumableJobMixin": "airflow.sdk",
    "TaskScope": "airflow.sdk.state",
}
"""Names that Airflow has from 3.3 on. Earlier, the stand-ins below are used."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first needed."""
    if name in _PLACES:
        found = _first(name)
    elif name in _ONLY_NEWER:
        try:
            found = getattr(import_module(_ONLY_NEWER[name]), name)
        except (ImportError, AttributeError):
            found = _STAND_INS[name]()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def _first(name: str) -> Any:
    newer, older = _PLACES[name]
    try:
        return getattr(import_module(newer), name)
    except (ImportError, AttributeError):
        return getattr(import_module(older), name)


# --- stand-ins ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TaskScope:
    """A task instance, as the scope of state."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


@dataclass(frozen=True)
class _AssetScope:
    """An asset, as the scope of state."""

    asset_id: int | None = None
    name: str | None = None
    uri: str | None = None


class _BaseStoreBackend:
    """A base without methods, because this Airflow calls no backend."""


def _resumable_job_mixin() -> type[Any]:
    """A stand-in for Airflow's mixin: the same hooks, and the argument `durable`. It runs no job itself."""
    from airflow.sdk.bases.operator import BaseOperatorMeta

    class ResumableJobMixin(ABC):
        """The hooks of Airflow's mixin."""

        external_id_key: str = "remote_job_id"

        @BaseOperatorMeta._apply_defaults  # type: ignore[type-var]  # noqa: SLF001  as Airflow's own mixin does
        def __init__(self, *, durable: bool = True, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.durable = durable

        @abstractmethod
        def submit_job(self, context: Any) -> Any:
            """Submit the job, and return its id."""

        @abstractmethod
        def get_job_status(self, external_id: Any, context: Any) -> str:
            """The status of the job, in the words of its system."""

        @abstractmethod
        def is_job_active(self, status: str) -> bool:
            """Whether a job of this status has not ended."""

        @abstractmethod
        def is_job_succeeded(self, status: str) -> bool:
            """Whether a job of this status has succeeded."""

        @abstractmethod
        def poll_until_complete(self, external_id: Any, context: Any) -> None:
            """Wait until the job has ended."""

        @abstractmethod
        def get_job_result(self, external_id: Any, context: Any) -> Any:
            """The result of the job."""

    return ResumableJobMixin


_STAND_INS: dict[str, Callable[[], Any]] = {
    "AssetScope": lambda: _AssetScope,
    "BaseStoreBackend": lambda: _BaseStoreBackend,
    "NEVER_EXPIRE": lambda: None,  # no store of this Airflow expires anything
    "ResumableJobMixin": _resumable_job_mixin,
    "TaskScope": lambda: _TaskScope,
}
