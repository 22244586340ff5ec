"""Tells Airflow of the page. Each of Airflow's processes loads this module, so the page itself is imported on demand.

The entry point names `ResumePlugin`. If the page is off, or if this Airflow cannot have it, that is None, and Airflow
passes over it. Airflow asks for `fastapi_apps` in the API server only.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow_resume.compat import conf
from airflow_resume.provider import SECTION

OPTION = "page"
NAME = "Airflow Resume"
PREFIX = "/airflow-resume"
TASK = "dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}"
VIEWS = (
    ("task_instance", "resume", "Resume", f"task?{TASK}"),
    ("dag_run", "resume-run", "Resume", "run?dag_id={DAG_ID}&run_id={RUN_ID}"),
    ("dag", "resume-dag", "Resume", "dag?dag_id={DAG_ID}"),
    ("nav", "watermarks", "Watermarks", "marks"),
)
"""Where Airflow's UI shows a part of the page: destination, name in the URL, label, and the path with placeholders."""


def is_on() -> bool:
    """Whether somebody has switched the page on."""
    return bool(conf.getboolean(SECTION, OPTION, fallback=False))


def plugin_class() -> type | None:
    """The plugin; None if the page is off."""
    if not is_on():
        return None
    try:
        import airflow.sdk.state  # noqa: F401  Airflow has state stores from 3.3 on
        from airflow.sdk.plugins_manager import AirflowPlugin
    except ImportError:
        return None

    class ResumePlugin(AirflowPlugin):
        """The page, and where Airflow's UI shows it."""

        name = "airflow_resume"

        @cached_property
        def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
            """The server of the page."""
            from airflow_resume.page.app import create_app

            return [{"app": create_app(), "url_prefix": PREFIX, "name": NAME}]

        @cached_property
        def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]
            """The tabs, and the entry in the navigation."""
            return [*external_views()]

    return ResumePlugin


def external_views() -> list[dict[str, Any]]:
    """The parts of the page, as Airflow wants them. The addresses are relative to the base of its UI."""
    return [
        {"name": label, "href": f"{PREFIX[1:]}/{path}", "destination": where, "url_route": route, "category": "browse"}
        if where == "nav"
        else {"name": label, "href": f"{PREFIX[1:]}/{path}", "destination": where, "url_route": route}
        for where, route, label, path in VIEWS
    ]


ResumePlugin = plugin_class()
