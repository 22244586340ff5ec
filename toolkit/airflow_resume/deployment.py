"""Which Airflow this is, where several submit to one job system.

Staging and production often have Dags, runs and tasks of the same names. What makes them differ is a name that somebody
gives them, `[airflow_resume] deployment`, or else the address under which people reach them, `[api] base_url`. An
address on the own machine (the default is `http://localhost:8080`) says nothing: everybody has it.
"""

from __future__ import annotations

import os
from functools import lru_cache
from urllib.parse import urlsplit

SECTION, OPTION = "airflow_resume", "deployment"
VARIABLE, URL_VARIABLE = "AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "AIRFLOW__API__BASE_URL"

_OWN_MACHINE = {"", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::"}  # noqa: S104  an address to compare with


def deployment() -> str | None:
    """The name of this deployment; None when it has none that only it has."""
    # Reading Airflow's configuration is slow, and in one process only its environment changes.
    return _configured(os.environ.get(VARIABLE), os.environ.get(URL_VARIABLE))


@lru_cache(maxsize=4)
def _configured(_given: str | None, _base_url: str | None) -> str | None:
    from airflow.sdk.configuration import conf

    given: str | None = conf.get(SECTION, OPTION, fallback=None)
    if given:
        return given
    base_url: str = conf.get("api", "base_url", fallback=None) or ""
    return base_url.rstrip("/") if _host(base_url) not in _OWN_MACHINE else None


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
