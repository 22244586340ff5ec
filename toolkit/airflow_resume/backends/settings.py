"""The settings of a backend: its arguments, or Airflow's configuration where they are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from airflow_resume.backends.urls.connections import ConnectionUrl
from airflow_resume.backends.values.codecs import Codec
from airflow_resume.configured import SECTION, configured
from airflow_resume.errors import BackendSettingError

DEFAULTS: dict[str, Any] = {"inline_bytes": 4_096, "on_dangling": "raise", "keep_versions": 1}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a backend."""

    url: str | ConnectionUrl = field(repr=False)
    """The URL of the database, or the connection to get the URL from."""
    inline_bytes: int
    """Values of fewer bytes of JSON stay in Airflow, whose UI shows them."""
    on_dangling: str
    keep_versions: int
    codec: str | Codec | None = field(default=None, repr=False)
    """What encrypts values; None if they are not encrypted."""


def read_settings(url: str | None, conn_id: str | None = None, **given: Any) -> Settings:
    """The settings: the given arguments, and without a URL and a connection also Airflow's configuration.

    If a URL or a connection is given, the configuration is not read, because a script need not have one.

    Raises:
        BackendSettingError: there is neither a URL nor a connection, or both, or the connection's id is empty; or a
            setting of the configuration cannot be read.
    """
    found = {name: value for name, value in given.items() if value is not None}
    if url is not None or conn_id is not None:
        return Settings(url=_place(url, conn_id, "given"), **{**DEFAULTS, **found})
    url, conn_id = configured("backend_url"), configured("backend_conn_id")
    on_dangling = configured("backend_on_dangling") or str(DEFAULTS["on_dangling"])
    if on_dangling not in {"raise", "missing"}:
        raise BackendSettingError(
            f"The setting [{SECTION}] backend_on_dangling of the state backend is neither raise nor missing.",
            "Set it to one of them, or leave it out.",
            setting="backend_on_dangling",
        )
    others = {
        "inline_bytes": _whole("inline_bytes", least=0),
        "on_dangling": on_dangling,
        "keep_versions": _whole("keep_versions", least=1),
        "codec": configured_codec(),
    }
    return Settings(url=_place(url, conn_id, "configured"), **{**others, **found})


def configured_codec() -> str | None:
    """The codec of Airflow's configuration.

    Raises:
        BackendSettingError: it cannot be read.
    """
    return configured("backend_codec")


def _whole(name: str, *, least: int) -> int:
    """A whole number. It raises as `configured` does."""
    given = configured(f"backend_{name}")
    if given is None:
        return int(DEFAULTS[name])
    if not re.fullmatch(r"[0-9]{1,9}", given) or int(given) < least:
        raise BackendSettingError(
            f"The setting [{SECTION}] backend_{name} of the state backend is no whole number from {least} on.",
            f"Set it to one, such as {DEFAULTS[name]}, or leave it out.",
            setting=f"backend_{name}",
        )
    return int(given)


def _place(url: str | None, conn_id: str | None, how: str) -> str | ConnectionUrl:
    if url is not None and conn_id is not None:
        raise BackendSettingError(
            f"The state backend has both a URL and a connection {how}, and they may differ.",
            "Set one of backend_url and backend_conn_id in [airflow_resume].",
            setting="backend_url",
        )
    if conn_id is not None:
        if not isinstance(conn_id, str) or not conn_id.strip():
            what = "an empty text" if isinstance(conn_id, str) else f"of the type {type(conn_id).__name__}"
            raise BackendSettingError(
                f"The id of the connection that the state backend is to use is {what}.",
                "Pass the id of a connection as a text, such as conn_id='resume_state'.",
                setting="backend_conn_id",
            )
        return ConnectionUrl(conn_id=conn_id)
    if url is not None:
        return url
    raise BackendSettingError(
        "The state backend has no URL.",
        "Set [airflow_resume] backend_url in Airflow's configuration (or AIRFLOW__AIRFLOW_RESUME__BACKEND_URL), or"
        " backend_conn_id, or pass one to SqlStoreBackend.",
        setting="backend_url",
    )
