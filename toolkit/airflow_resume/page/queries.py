"""The records of a page, by one query of Airflow's database.

The page runs in the API server, so it may read the tables that Airflow's API reads. If workers have a state backend of
their own, these tables have what the backend has left in them, as for Airflow's API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.models import xcom
from airflow.models.asset import AssetActive, AssetModel
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import and_, or_, select

from airflow_resume.links import LINK_KEY, shown_link
from airflow_resume.operating import job_rows, loop_rows, mark_rows
from airflow_resume.operating.places import OPEN, AssetPlace, Entry, Place, TaskPlace
from airflow_resume.operating.references import NO_REGION
from airflow_resume.operating.steering import AT_WORK, owner_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from airflow_resume.record import Record

MOST = 2_000
"""Records of one page, at most. If there are more, the page says so."""
_ITS_RECORDS = (job_rows.PREFIX, loop_rows.PREFIX)
_MOST_WRITERS = 10


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a page shows.

    Args:
        entries: the records.
        links: the address of the job of a task instance, by its place.
        is_cut: whether there are more.
    """

    entries: list[Entry]
    links: dict[Place, str] = field(default_factory=dict)
    is_cut: bool = False


def of_task(session: Session, place: TaskPlace) -> Found:
    """The records of one task instance; in Airflow 3.4, those of all its iterations if the place names no region."""
    state = TaskStateStoreModel
    one = (state.run_id == place.run_id, state.task_id == place.task_id, place.map_index == INDEX)
    its_region = () if place.region_id is None else of_region(state, place)
    return _of_tasks(session, place.dag_id, *one, *its_region)


def of_run(session: Session, dag_id: str, run_id: str) -> Found:
    """The records of all task instances of a Dag run."""
    return _of_tasks(session, dag_id, TaskStateStoreModel.run_id == run_id)


def of_dag(session: Session, dag_id: str) -> Found:
    """The records of all task instances of a Dag that have not ended well."""
    is_open = or_(TaskInstance.state.in_(OPEN), TaskInstance.state.is_(None))
    return _of_tasks(session, dag_id, is_open)


def _of_tasks(session: Session, dag_id: str, *conditions: Any) -> Found:
    prefixes = or_(*(TaskStateStoreModel.key.startswith(prefix, autoescape=True) for prefix in _ITS_RECORDS))
    query = _tasks().where(TaskStateStoreModel.dag_id == dag_id, prefixes, *conditions)
    query = query.order_by(TaskInstance.start_date.desc(), TaskStateStoreModel.id).limit(MOST + 1)
    rows = session.execute(query).all()
    entries, links = [], {}
    for row in rows[:MOST]:
        place = _place(row)
        entries.append(_entry(place, row))
        if row.link is not None:
            links[place] = _link(row.link)
    return Found(entries=entries, links={place: link for place, link in links.items() if link}, is_cut=len(rows) > MOST)


def of_assets(session: Session, asset_id: int | None = None) -> Found:
    """The marks of one asset, or of all that a Dag names."""
    query = (
        select(
            AssetStateStoreModel.asset_id,
            AssetModel.name,
            AssetStateStoreModel.key,
            AssetStateStoreModel.value,
            AssetStateStoreModel.updated_at,
        )
        .join(AssetModel, AssetModel.id == AssetStateStoreModel.asset_id)
        .where(AssetStateStoreModel.key.startswith(mark_rows.PREFIX, autoescape=True))
        .order_by(AssetModel.name, AssetStateStoreModel.key)
        .limit(MOST + 1)
    )
    if asset_id is None:
        query = query.join(AssetActive, and_(AssetActive.name == AssetModel.name, AssetActive.uri == AssetModel.uri))
    else:
        query = query.where(AssetStateStoreModel.asset_id == asset_id)
    rows = session.execute(query).all()
    entries = [_entry(AssetPlace(asset_id=row.asset_id, name=row.name), row) for row in rows[:MOST]]
    return Found(entries=entries, is_cut=len(rows) > MOST)


def is_there(session: Session, dag_id: str, run_id: str | None = None, task_id: str | None = None) -> bool:
    """Whether there is such a Dag, such a run of it, or such a task in the run. Asked only if there are no records."""
    instance, run = TaskInstance, DagRun
    if task_id is not None:
        of_task = (instance.dag_id == dag_id, instance.run_id == run_id, instance.task_id == task_id)
        return session.scalar(select(instance.task_id).where(*of_task).limit(1)) is not None
    if run_id is not None:
        return session.scalar(select(run.run_id).where(run.dag_id == dag_id, run.run_id == run_id)) is not None
    return session.scalar(select(DagModel.dag_id).where(DagModel.dag_id == dag_id)) is not None


def asset_name(session: Session, asset_id: int) -> str | None:
    """The name of an asset; None if there is no such asset."""
    return session.scalar(select(AssetModel.name).where(AssetModel.id == asset_id))


def writers(session: Session, place: Place, record: Record, *, locked: bool = False) -> list[TaskPlace]:
    """The task instances that may write a record, see `steering.Writers`.

    Args:
        session: of Airflow's database.
        place: of the record.
        record: the record itself, which names the owner of a mark.
        locked: have them keep the state that is returned until the transaction ends.
    """
    query = select(*_INSTANCE).limit(_MOST_WRITERS)
    if isinstance(place, TaskPlace):
        query = query.where(
            TaskInstance.dag_id == place.dag_id,
            TaskInstance.run_id == place.run_id,
            TaskInstance.task_id == place.task_id,
            TaskInstance.map_index == place.map_index,
            *of_region(TaskInstance, place),
        )
    else:
        owner = owner_of(record)
        if owner is None:
            return []
        query = query.where(
            TaskInstance.dag_id == owner.dag_id,
            TaskInstance.task_id == owner.task_id,
            TaskInstance.state.in_(AT_WORK),
        )
    return [_place(row) for row in session.execute(query.with_for_update() if locked else query)]


def of_region(table: Any, place: TaskPlace) -> tuple[Any, ...]:
    """What tells the row of a place from those in other regions of Airflow 3.4: nothing before."""
    return (table.region_id == UUID(place.region_id or NO_REGION),) if _HAS_REGIONS else ()


# --- from rows ------------------------------------------------------------------------------------------------

_HAS_REGIONS = hasattr(TaskStateStoreModel, "region_id")
"""Whether this Airflow (3.4) counts task instances within regions, and not only by a map index."""
INDEX: Any = getattr(TaskStateStoreModel, "region_index" if _HAS_REGIONS else "map_index")
"""The column of the map index of a record."""
_XComs: Any = getattr(xcom, "XComModelV2" if _HAS_REGIONS else "XComModel")
"""In Airflow 3.4, `XComModel` is a union of all XComs there are, so the table of the new ones is read itself."""
_REGION: tuple[Any, ...] = (getattr(TaskInstance, "region_id"),) if _HAS_REGIONS else ()  # noqa: B009
_INSTANCE: tuple[Any, ...] = (
    TaskInstance.dag_id,
    TaskInstance.run_id,
    TaskInstance.task_id,
    TaskInstance.map_index.label("map_index"),
    *_REGION,
    TaskInstance.state,
    TaskInstance.try_number,
    TaskInstance.max_tries,
    TaskInstance.start_date,
)


def _tasks() -> Any:
    state, link = TaskStateStoreModel, _XComs
    its_instance = and_(
        TaskInstance.dag_id == state.dag_id,
        TaskInstance.run_id == state.run_id,
        TaskInstance.task_id == state.task_id,
        TaskInstance.map_index == INDEX,
        *_same_region(TaskInstance),
    )
    its_link = and_(*_its(link), link.key == LINK_KEY, state.key.startswith(job_rows.PREFIX, autoescape=True))
    columns = (*_INSTANCE, state.key, state.value, state.updated_at, link.value.label("link"))
    query: Any = select(*columns)
    return query.join(TaskInstance, its_instance).outerjoin(link, its_link)


def _same_region(table: Any) -> tuple[Any, ...]:
    return (table.region_id == _region_of(TaskStateStoreModel),) if _HAS_REGIONS else ()


def _its(link: Any) -> tuple[Any, ...]:
    """What tells the XComs of a task instance from others."""
    if _HAS_REGIONS:
        return (link.task_instance_id == TaskInstance.id,)
    state: Any = TaskStateStoreModel
    return link.dag_run_id == state.dag_run_id, link.task_id == state.task_id, link.map_index == state.map_index


def _region_of(row: Any) -> Any:
    return row.region_id


def _place(row: Any) -> TaskPlace:
    return TaskPlace(
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        state=None if row.state is None else str(getattr(row.state, "value", row.state)),
        try_number=row.try_number,
        max_tries=row.max_tries,
        started=row.start_date,
        **_region(row),
    )


def _region(row: Any) -> dict[str, Any]:
    region = str(_region_of(row)) if _HAS_REGIONS else NO_REGION
    return {} if region == NO_REGION else {"region_id": region, "region_index": row.map_index}


def _entry(place: Place, row: Any) -> Entry:
    return Entry.of_text(place, row.key, row.value, row.updated_at)


def _link(stored: object) -> str | None:
    """The address that an XCom has."""
    return next((link for text in _texts(stored) if (link := shown_link(text))), None)


def _texts(stored: object) -> Iterator[str]:
    if isinstance(stored, str):
        yield stored
        try:
            inner = json.loads(stored)
        except ValueError:
            return
        if isinstance(inner, str):
            yield inner
