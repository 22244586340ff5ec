"""Tells Airflow of the page. Each of Airflow's processes loads this module, so the page itself is imported on demand.

The entry point names `ResumePlugin`. If the page is off, or if this Airflow cannot have it, that is None, and Airflow
passes over it. Airflow asks for `fastapi_apps` in the API server only.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow_resume.compat import conf
from airflow_resume.page.addresses import NAME, PREFIX, external_views
from airflow_resume.provider import SECTION

OPTION = "page"


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
            from typing import get_args

            from airflow.api_fastapi.core_api.datamodels.plugins import BaseDestinationLiteral

            return external_views(get_args(BaseDestinationLiteral))

    return ResumePlugin


ResumePlugin = plugin_class()
