"""Which Airflow deployment this is, if several submit to one job system.

Staging and production often have Dags, runs and tasks with the same names. They are told apart by the name in
`[airflow_resume] deployment`, or else by the address in `[api] base_url`. A local address (the default is
`http://localhost:8080`) does not identify a deployment.
"""

from __future__ import annotations

import os
from functools import lru_cache
from urllib.parse import urlsplit

SECTION, OPTION = "airflow_resume", "deployment"
VARIABLE, URL_VARIABLE = "AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "AIRFLOW__API__BASE_URL"

_OWN_MACHINE = {"", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::"}  # noqa: S104  an address to compare with


def deployment() -> str | None:
    """The name of this deployment; None if it has none that tells it from others."""
    # Cached by the environment, as reading the configuration is slow, and nothing else of it changes in one process.
    return _configured(os.environ.get(VARIABLE), os.environ.get(URL_VARIABLE))


@lru_cache(maxsize=4)
def _configured(_given: str | None, _base_url: str | None) -> str | None:
    from airflow_resume.compat import conf

    given: str | None = conf.get(SECTION, OPTION, fallback=None)
    if given:
        return given
    base_url: str = conf.get("api", "base_url", fallback=None) or ""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return None
    return None if host in _OWN_MACHINE else base_url.rstrip("/")
