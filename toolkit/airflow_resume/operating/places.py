"""Where records are: task instances and assets, and what they have in their state.

At most one request is made for the state of each task instance and asset, and eight at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.links import LINK_KEY, shown_link
from airflow_resume.operating.api import PAGE, AirflowApi, path_of
from airflow_resume.shown import shown

if TYPE_CHECKING:
    from pydantic import JsonValue

ENVELOPE = "__airflow_state_ref__"
"""The one field of the object that Airflow's API shows in place of a value, if workers have a backend of their own."""
REFERENCE, ENCRYPTED = "airflow-resume:", "airflow-resume:enc:"
_PARTS_OF_A_REFERENCE = 5
LATEST = "latest"
"""In place of the id of a Dag run: the newest one."""
MOST = 2_000
"""Task instances that a command looks at unless it is told otherwise, the newest ones first."""
OPEN = (
    "running", "deferred", "up_for_retry", "up_for_reschedule", "restarting", "queued", "scheduled", "failed",
    "upstream_failed",
)  # fmt: skip
"""States of task instances whose records are of interest to whoever is on call. The others have ended well."""
_NEVER_RAN = frozenset({None, "scheduled", "queued", "skipped", "upstream_failed", "removed"})
"""With the try number 0, such a task instance has no state."""


@dataclass(frozen=True, kw_only=True)
class TaskPlace:
    """A task instance, as Airflow shows it.

    Args:
        dag_id, run_id, task_id, map_index: which it is.
        state: such as `running`; None if it has none yet.
        try_number, max_tries: as Airflow has them.
        started: the present or last try.
        region_id, region_index: in Airflow 3.4, its place among the instances of a mapped task, or of a loop of tasks.
        iteration: of a loop of tasks.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    state: str | None = None
    try_number: int = 0
    max_tries: int = 0
    started: datetime | None = None
    region_id: str | None = None
    region_index: int | None = None
    iteration: int | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> TaskPlace:
        """From an answer of the API."""
        loop = found.get("loop_iteration") or {}
        return cls(
            dag_id=found["dag_id"],
            run_id=found["dag_run_id"],
            task_id=found["task_id"],
            map_index=found["map_index"],
            state=found["state"],
            try_number=found["try_number"],
            max_tries=found["max_tries"],
            started=moment(found["start_date"]),
            region_id=found.get("region_id"),
            region_index=found.get("region_index"),
            iteration=loop.get("iteration"),
        )

    def __str__(self) -> str:
        index = "" if self.map_index < 0 else f"[{self.map_index}]"
        iteration = "" if self.iteration is None else f" (iteration {self.iteration})"
        return f"{self.dag_id} {self.run_id} {self.task_id}{index}{iteration}"

    @property
    def task(self) -> str:
        """The path of all instances of the task in the run."""
        return path_of("dags", self.dag_id, "dagRuns", self.run_id, "taskInstances", self.task_id)

    @property
    def instance(self) -> str:
        """The path of the task instance."""
        return self.task if self.map_index < 0 else f"{self.task}/{self.map_index}"

    @property
    def store(self) -> str:
        """The path of its state."""
        return f"{self.task}/state-store"

    @property
    def params(self) -> dict[str, str | int]:
        """What tells it from other instances of the task."""
        return self.region or {"map_index": self.map_index}

    @property
    def region(self) -> dict[str, str | int]:
        """Its region and its place there; nothing if it is in none."""
        if self.region_id is None or self.region_index is None:
            return {}
        return {"region_id": self.region_id, "region_index": self.region_index}

    member = "task_state_store"

    def body(self, value: JsonValue) -> dict[str, JsonValue]:
        """What is sent to set a key. Records never expire."""
        return {"value": value, "expires_at": None}


@dataclass(frozen=True, kw_only=True)
class AssetPlace:
    """An asset."""

    asset_id: int
    name: str

    def __str__(self) -> str:
        return f"asset {self.name}"

    @property
    def store(self) -> str:
        """The path of its state."""
        return path_of("assets", self.asset_id, "state-store")

    @property
    def params(self) -> dict[str, str | int]:
        """None are needed."""
        return {}

    member = "asset_state_store"

    def body(self, value: JsonValue) -> dict[str, JsonValue]:
        """What is sent to set a key."""
        return {"value": value}


Place = TaskPlace | AssetPlace


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A key in the state of a place.

    Args:
        value: as it was written; None if it is in another database, see `reference`.
        updated: when it was written.
        is_enveloped: Airflow keeps it as text, as workers have a backend of their own.
        reference: what Airflow has in place of the value: a reference to it, or its encrypted text.
        text: the value as JSON, if it is known and short: what was read from the same text is not read again.
    """

    place: Place
    key: str
    value: JsonValue
    updated: datetime | None
    is_enveloped: bool = False
    reference: str | None = None
    text: str | None = None

    @classmethod
    def of(cls, place: Place, found: Mapping[str, Any]) -> Entry:
        """From an answer of the API."""
        return cls.made_of(place, found["key"], found["value"], moment(found["updated_at"]))

    @classmethod
    def made_of(cls, place: Place, key: str, value: JsonValue, updated: datetime | None) -> Entry:
        """From a key and its value, as Airflow has it."""
        if not (isinstance(value, dict) and list(value) == [ENVELOPE]):
            return cls(place=place, key=key, value=value, updated=updated)
        text = value[ENVELOPE]
        inner = None if not isinstance(text, str) or text.startswith(REFERENCE) else _read(text)
        reference = text if isinstance(text, str) and inner is None else None
        return cls(place=place, key=key, value=inner, updated=updated, is_enveloped=True, reference=reference)

    @classmethod
    def of_text(cls, place: Place, key: str, text: str, updated: datetime | None) -> Entry:
        """From a key and its value, as Airflow has it in its database."""
        if len(text) > MOST_KEPT or ENVELOPE in text:
            return cls.made_of(place, key, json.loads(text), updated)
        return cls(place=place, key=key, value=parsed(text), updated=updated, text=text)

    @property
    def refers_to(self) -> str | None:
        """Where the value is, in words; None if it is here."""
        if self.reference is None:
            return None
        parts = self.reference.split(":", 4)
        if self.reference.startswith(REFERENCE) and len(parts) == _PARTS_OF_A_REFERENCE:
            return f"{unquote(parts[4])} in the database {parts[2]} of SqlStoreBackend"
        return "an encrypted text in Airflow" if self.is_encrypted else shown(self.reference, most=200)

    @property
    def is_encrypted(self) -> bool:
        """Whether Airflow has the value itself, encrypted by the state backend of the workers."""
        return self.reference is not None and self.reference.startswith(ENCRYPTED)

    def raw(self, value: JsonValue) -> JsonValue:
        """A new value of this key, in the form in which Airflow has the present one."""
        return {ENVELOPE: json.dumps(value)} if self.is_enveloped else value


MOST_KEPT = 2_000
"""Characters of a value that is kept once it was read, as the next look at it will most likely be at the same one."""


@lru_cache(maxsize=2_500)
def parsed(text: str) -> Any:
    """The value of a short text of JSON. Those who get it share it, so it is not to be changed."""
    return json.loads(text)


def _read(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:  # encrypted, or of another backend
        return None
    return value


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which task instances are meant: of a run, a Dag, or of all that one may see.

    Args:
        dag_id, run_id, task_id, map_index: None: all of them. A `run_id` of `latest` means the newest run.
        finished: also those that have ended well. A run that is named is always looked at as a whole.
        most: at most so many, the newest ones first.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    finished: bool = False
    most: int = MOST


@dataclass(frozen=True, kw_only=True)
class Places:
    """Task instances, and how many there are in all if not all of them were looked at."""

    places: list[TaskPlace]
    total: int

    @property
    def is_cut(self) -> bool:
        """Whether there are more."""
        return self.total > len(self.places)


def task_places(api: AirflowApi, scope: Scope) -> Places:
    """The task instances that may have state.

    Raises:
        UsageError: the Dag has no run yet.
        AirflowApiError: there is no such Dag or run, or it may not be seen.
    """
    run_id = newest_run(api, scope.dag_id or "~") if scope.run_id == LATEST else scope.run_id
    path = path_of("dags", scope.dag_id or "~", "dagRuns", run_id or "~", "taskInstances")
    params: dict[str, Any] = {"order_by": "-start_date"}
    if scope.task_id is not None:
        params["task_id"] = scope.task_id
    if scope.map_index is not None:
        params["map_index"] = scope.map_index
    if run_id is None and not scope.finished:
        params["state"] = OPEN
    first = api.get(path, limit=PAGE, offset=0, **params)
    entries, total = first["task_instances"], int(first["total_entries"])
    wanted = min(total, scope.most)
    more = api.at_once(
        lambda offset: api.get(path, limit=PAGE, offset=offset, **params)["task_instances"],
        range(len(entries), wanted, len(entries) or 1),
    )
    found = [TaskPlace.of(each) for each in chain(entries, *more)][:wanted]
    seen = {
        (each.dag_id, each.run_id, each.task_id, each.map_index, each.region_id, each.region_index): each
        for each in found
    }
    ran = [each for each in seen.values() if each.try_number > 0 or each.state not in _NEVER_RAN]
    return Places(places=ran, total=total - wanted + len(ran))


def newest_run(api: AirflowApi, dag_id: str) -> str:
    """The id of the newest run of a Dag.

    Raises:
        UsageError: it has none.
        AirflowApiError: there is no such Dag (404), or it may not be seen.
    """
    runs = api.get(f"{path_of('dags', dag_id)}/dagRuns", order_by="-run_after", limit=1)["dag_runs"]
    if not runs:
        raise UsageError(f"The Dag {dag_id!r} has no run.", "Name a Dag that has run.", name=dag_id)
    return str(runs[0]["dag_run_id"])


def asset_places(api: AirflowApi, name: str | None = None) -> list[AssetPlace]:
    """The assets by their names, or the one with this name."""
    params: dict[str, Any] = {} if name is None else {"name_pattern": name}
    found = api.pages("/assets", "assets", **params)
    assets = [AssetPlace(asset_id=each["id"], name=each["name"]) for each in found if name in {None, each["name"]}]
    return sorted(assets, key=lambda each: (each.name, each.asset_id))


def entries_of(api: AirflowApi, places: Sequence[Place], prefix: str = "") -> Iterator[Entry]:
    """What the places have under keys that begin with the prefix. A place that has gone meanwhile has nothing."""
    for entries in api.at_once(partial(_entries, api), places):
        yield from (each for each in entries if each.key.startswith(prefix))


def _entries(api: AirflowApi, place: Place) -> list[Entry]:
    answer = api.found(place.store, limit=PAGE, offset=0, **place.params)
    found = [] if answer is None else list(answer[place.member])
    while answer is not None and len(found) < answer["total_entries"] and answer[place.member]:
        answer = api.found(place.store, limit=PAGE, offset=len(found), **place.params)
        found += [] if answer is None else answer[place.member]
    return [Entry.of(place, each) for each in found]


def entry_of(api: AirflowApi, place: Place, key: str) -> Entry | None:
    """One key of a place as it is now; None if there is no such key."""
    found = api.found(f"{place.store}{path_of(key)}", **place.params)
    return None if found is None else Entry.of(place, found)


def link_of(api: AirflowApi, place: TaskPlace) -> str | None:
    """The address of a job in its own system; None if the job has no address, or the user may not see it."""
    path = f"{place.task}/xcomEntries/{LINK_KEY}"
    try:
        found = api.found(path, map_index=place.map_index)
    except AirflowApiError:  # the XComs of a task are a right of their own
        return None
    text = None if found is None else found.get("value")
    if isinstance(text, str) and text.startswith('"'):  # the API gives it as it is in the database
        text = _read(text)
    return shown_link(text)


def moment(text: str | None) -> datetime | None:
    """A time as the API writes it. Python 3.10 does not read the `Z`."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))
