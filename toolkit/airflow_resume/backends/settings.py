"""What a backend is told: by its arguments, or where they are left out by Airflow's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_resume.errors import BackendNotConfiguredError

SECTION = "airflow_resume"
DEFAULTS: dict[str, Any] = {"inline_bytes": 4_096, "on_dangling": "raise", "keep_versions": 1}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be configured."""

    url: str
    inline_bytes: int
    """Below so many bytes of JSON a value stays in Airflow, and its UI shows it."""
    on_dangling: str
    keep_versions: int


def read_settings(url: str | None, **given: Any) -> Settings:
    """Those that are given; where one is None and Airflow makes the backend, that of its configuration.

    With a URL the configuration is not looked at: a script need not have one.

    Raises:
        BackendNotConfiguredError: there is no URL.
    """
    found = {name: value for name, value in given.items() if value is not None}
    if url is not None:
        return Settings(url=url, **{**DEFAULTS, **found})
    from airflow.sdk.configuration import conf

    url = conf.get(SECTION, "backend_url", fallback=None)
    if not url:
        raise BackendNotConfiguredError(
            "The state backend has no URL.",
            "Set [airflow_resume] backend_url in Airflow's configuration (or AIRFLOW__AIRFLOW_RESUME__BACKEND_URL), or"
            " pass one to SqlStoreBackend.",
        )
    configured = {
        "inline_bytes": conf.getint(SECTION, "backend_inline_bytes", fallback=DEFAULTS["inline_bytes"]),
        "on_dangling": conf.get(SECTION, "backend_on_dangling", fallback=DEFAULTS["on_dangling"]),
        "keep_versions": conf.getint(SECTION, "backend_keep_versions", fallback=DEFAULTS["keep_versions"]),
    }
    return Settings(url=url, **{**configured, **found})
