"""Where the page is: its own address in the API server, and where Airflow's UI shows a part of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

NAME = "Airflow Resume"
PREFIX = "/airflow-resume"
_TASK = "dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}"
_VIEWS = (
    ("task_instance", "resume", "Resume", f"task?{_TASK}"),
    ("dag_run", "resume-run", "Resume", "run?dag_id={DAG_ID}&run_id={RUN_ID}"),
    ("dag", "resume-dag", "Resume", "dag?dag_id={DAG_ID}"),
    ("asset", "watermarks-of-asset", "Watermarks", "marks/{ASSET_ID}"),
    ("nav", "watermarks", "Watermarks", "marks"),
)
"""Destination, name in the address of the UI, label, and the path with the placeholders that the UI fills in."""


def external_views(destinations: Collection[str]) -> list[dict[str, Any]]:
    """The parts of the page, as Airflow wants them. The addresses are relative to the base of its UI.

    Args:
        destinations: those that this Airflow has; assets from 3.4 on.
    """
    return [
        {"name": label, "href": f"{PREFIX[1:]}/{path}", "destination": where, "url_route": route}
        | ({"category": "browse"} if where == "nav" else {})
        for where, route, label, path in _VIEWS
        if where in destinations
    ]
