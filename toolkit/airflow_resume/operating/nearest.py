"""What somebody may have meant who has typed a name that is not there. Each needs a few requests more."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.operating.api import PAGE, AirflowApi, path_of
from airflow_resume.operating.places import TaskPlace, asset_places
from airflow_resume.shown import shown

MOST = 5
"""Names of one sentence."""
MOST_LOOKED_AT = 1_000
_LONGEST = 80


def nearest(typed: str, known: Iterable[str]) -> str | None:
    """A sentence with the names that are most like what was typed, or else with some of all; None if there are none."""
    names = sorted({*known})
    if not names:
        return None
    lower = {name.lower(): name for name in reversed(names)}
    like = [lower[each] for each in get_close_matches(typed.lower(), lower, n=MOST, cutoff=0.5)]
    like += [name for name in names if typed and typed.lower() in name.lower() and name not in like]
    if like:
        return f"Did you mean {' or '.join(_quoted(name) for name in like[:MOST])}?"
    more = f", and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(_quoted(name) for name in names[:MOST])}{more}."


def no_dag(api: AirflowApi, dag_id: str) -> UsageError:
    """The error for a Dag that is not there, or may not be seen."""
    known = (str(each["dag_id"]) for each in api.pages("/dags", "dags", most=MOST_LOOKED_AT))
    return _missing(f"There is no Dag {_quoted(dag_id)} that you may see.", dag_id, _if_told(known))


def no_run(api: AirflowApi, dag_id: str, run_id: str) -> UsageError:
    """The error for a run that is not there; if its Dag is not there either, for that."""
    if api.found(path_of("dags", dag_id)) is None:
        return no_dag(api, dag_id)
    runs = api.pages(f"{path_of('dags', dag_id)}/dagRuns", "dag_runs", most=PAGE, order_by="-run_after")
    known = (str(each["dag_run_id"]) for each in runs)
    return _missing(f"The Dag {_quoted(dag_id)} has no run {_quoted(run_id)}.", run_id, _if_told(known))


def no_instance(api: AirflowApi, place: TaskPlace) -> UsageError:
    """The error for a task instance that is not there; if its run is not there either, for that."""
    path = path_of("dags", place.dag_id, "dagRuns", place.run_id, "taskInstances")
    first = api.found(path, limit=PAGE)
    if first is None or not first["task_instances"]:
        return no_run(api, place.dag_id, place.run_id)
    known = {str(each["task_id"]) for each in api.pages(path, "task_instances", most=MOST_LOOKED_AT)}
    if place.task_id in known:
        said = f"There is no task instance {place}."
        return UsageError(said, "A mapped one needs its --map-index, and another one none.", name=str(place))
    return _missing(f"There is no task {_quoted(place.task_id)} in this run.", place.task_id, known)


def no_asset(api: AirflowApi, name: str) -> UsageError:
    """The error for an asset that is not there, or may not be seen."""
    known = (place.name for place in asset_places(api))
    return _missing(f"There is no asset {_quoted(name)} that you may see.", name, _if_told(known))


def _missing(message: str, name: str, known: Iterable[str]) -> UsageError:
    return UsageError(message, nearest(name, known), name=name)


def _if_told(names: Iterable[str]) -> list[str]:
    """The names, as far as Airflow tells them."""
    found: list[str] = []
    with suppress(AirflowApiError):  # a user may see one thing, and not the list of all
        found.extend(names)
    return found


def _quoted(name: str) -> str:
    return repr(shown(name, most=_LONGEST))
