"""Makes a change in Airflow's database: one transaction, and nothing in it if the record has moved.

Theory of operation. The change is planned as for the command line (`operating.steering`), and with more certainty: the
task instances that may write the record are locked first, so that none of them starts before the transaction ends. The
record is then written only where it is still the one that was planned with. So the change is made as a whole or not at
all, and it is never uncertain. SQLite has no locks of rows; there the write itself locks everything, so the states of
the task instances are looked at once more after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.models.log import Log
from airflow.models.task_state_store import TaskStateStoreModel
from sqlalchemy import select, update

from airflow_resume.attempt import utc_now
from airflow_resume.errors import ChangeRefusedError, UsageError
from airflow_resume.operating.changes import Change, Person
from airflow_resume.operating.kinds import Kind
from airflow_resume.operating.places import AssetPlace, Entry, Place, TaskPlace
from airflow_resume.operating.steering import Plan, at_work, plan
from airflow_resume.page.queries import INDEX, asset_name, of_region, writers

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

MOST_OF_EXTRA = 2_000


def planned_change(
    session: Session,
    place: Place,
    key: str,
    kind: Kind,
    change: Callable[[Any], Change],
    *,
    shown: str | None,
    locked: bool = False,
) -> Plan[Any]:
    """What a change would do to the record. Nothing is written.

    Args:
        session: of Airflow's database.
        place: of the record.
        key: of the record.
        kind: of the record.
        change: makes the new record.
        shown: the digest of the record that the person has seen.
        locked: have no task start until the transaction ends.

    Raises:
        UsageError: there is no such record.
        ChangeRefusedError, UnreadableRecordError: as `steering.plan`.
    """
    found = _entry(session, place, key)
    return plan(partial(writers, session, locked=locked), found, kind.record, change, shown=shown)


def carry_out(session: Session, planned: Plan[Any], person: Person, verb: str, *, force: bool) -> None:
    """Make the change, and put a line into Airflow's audit log.

    Raises:
        ChangeRefusedError: it is refused, and nothing was changed.
    """
    refusal = planned.refusal(force=force)
    if refusal is not None:
        raise refusal
    found = planned.entry
    table, one = _row(found.place, found.key)
    raw = session.scalar(select(table.value).where(*one).with_for_update())
    if raw is None or Entry.made_of(found.place, found.key, json.loads(raw), None).value != found.value:
        raise _moved()
    new = json.dumps(found.raw(planned.stored))
    written: Any = session.execute(
        update(table)
        .where(*one, table.value == raw)
        .values(value=new, updated_at=utc_now(), **_written_by(found.place))
        .execution_options(synchronize_session=False)
    )
    if written.rowcount != 1:
        raise _moved()
    if not force and at_work(writers(session, found.place, planned.before)).what is not None:
        raise ChangeRefusedError(
            "Its task has just started. Nothing was changed.", "Wait until it ends.", why="running"
        )
    session.add(_log(found, person, verb))


def asset_place(session: Session, asset_id: int) -> AssetPlace:
    """The asset.

    Raises:
        UsageError: there is none.
    """
    name = asset_name(session, asset_id)
    if name is None:
        raise UsageError(f"There is no asset {asset_id}.", name=str(asset_id))
    return AssetPlace(asset_id=asset_id, name=name)


def _entry(session: Session, place: Place, key: str) -> Entry:
    table, one = _row(place, key)
    row = session.execute(select(table.value, table.updated_at).where(*one)).one_or_none()
    if row is None:
        raise UsageError("There is no such record any more.", "Load the page again.", name=key)
    return Entry.of_text(place, key, row.value, row.updated_at)


def _row(place: Place, key: str) -> tuple[Any, tuple[ColumnElement[bool], ...]]:
    """The table of a record, and what tells its row from all others."""
    if isinstance(place, AssetPlace):
        assets = AssetStateStoreModel
        return assets, (assets.asset_id == place.asset_id, assets.key == key)
    tasks = TaskStateStoreModel
    return tasks, (
        tasks.dag_id == place.dag_id,
        tasks.run_id == place.run_id,
        tasks.task_id == place.task_id,
        place.map_index == INDEX,
        *of_region(tasks, place),
        tasks.key == key,
    )


def _written_by(place: Place) -> dict[str, Any]:
    """What Airflow's API sets too."""
    if isinstance(place, TaskPlace):
        return {"expires_at": None}
    unknown = dict.fromkeys(("dag_id", "run_id", "task_id", "map_index"))
    return {"last_updated_by_kind": "api", **{f"last_updated_by_{name}": value for name, value in unknown.items()}}


def _log(found: Entry, person: Person, verb: str) -> Log:
    place = found.place
    said = {"key": found.key, "why": person.why} | ({"asset": place.name} if isinstance(place, AssetPlace) else {})
    where: dict[str, Any] = (
        {"dag_id": place.dag_id, "task_id": place.task_id, "run_id": place.run_id, "map_index": place.map_index}
        if isinstance(place, TaskPlace)
        else {}
    )
    return Log(event=f"resume.{verb}", owner=person.who, extra=json.dumps(said)[:MOST_OF_EXTRA], **where)


def _moved() -> ChangeRefusedError:
    return ChangeRefusedError(
        "The record has moved while it was being changed. Nothing was changed.", "Look at it again.", why="moved"
    )
