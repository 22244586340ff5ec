"""The references that Airflow has to values in a database of its own: what a cleanup of that database must not delete.

A value is in the same scope in both databases. So only the scopes that have values there are asked for, and each of
them completely: nothing depends on a list of all task instances, which changes while it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_resume.operating.api import AirflowApi
from airflow_resume.operating.places import AssetPlace, Place, TaskPlace, entries_of

NO_REGION = "00000000-0000-0000-0000-000000000000"
"""The region of all task instances of Airflow 3.3, and of those outside a region in later ones."""


def references_of(api: AirflowApi, scopes: Iterable[Mapping[str, object]]) -> list[str]:
    """The references in these scopes.

    Args:
        api: of the Airflow that uses the database.
        scopes: as the database describes them: `dag_id`, `run_id`, `task_id` and `map_index`, or `asset_id`,
            `asset_name` or `asset_uri`.

    Raises:
        AirflowApiError: one of them cannot be asked for.
    """
    api.get("/version")  # fails if this is not the address of an Airflow
    assets = _Assets(api)
    places: dict[Place, None] = {}
    for scope in scopes:
        places.update(dict.fromkeys(_places(scope, assets)))
    return [entry.reference for entry in entries_of(api, [*places]) if entry.reference is not None]


def _places(scope: Mapping[str, Any], assets: _Assets) -> Iterator[Place]:
    if "task_id" not in scope:
        yield from assets.of(scope)
        return
    which = {name: scope[name] for name in ("dag_id", "run_id", "task_id")}
    index, region = scope.get("map_index", -1), scope.get("region_id")
    if region not in {None, NO_REGION}:
        yield TaskPlace(**which, map_index=index, region_id=region, region_index=index)
        return
    yield TaskPlace(**which, map_index=index)
    yield TaskPlace(**which)  # a task that was mapped later


class _Assets:
    """All assets, also those that no Dag names any more. They are asked for once, when they are needed."""

    def __init__(self, api: AirflowApi) -> None:
        self._api = api
        self._known: list[dict[str, Any]] | None = None

    def of(self, scope: Mapping[str, object]) -> list[AssetPlace]:
        """Those that the scope may mean."""
        if self._known is None:
            self._known = [*self._api.pages("/assets", "assets", only_active=False, order_by="id")]
        names = {"id": scope.get("asset_id"), "name": scope.get("asset_name"), "uri": scope.get("asset_uri")}
        return [
            AssetPlace(asset_id=each["id"], name=each["name"])
            for each in self._known
            if any(value is not None and each.get(name) == value for name, value in names.items())
        ]
