"""The login that `airflowctl auth login` has kept on this machine: an address, and a token in the keyring."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from airflow_resume.shown import get_logger

logger = get_logger(__name__)


class Login(NamedTuple):
    """Whom to ask, and with which token."""

    url: str
    token: str


def kept_login(environment: Mapping[str, str] = os.environ) -> Login | None:
    """The login that airflowctl would use, read with its own code; None if there is none.

    Importing airflowctl takes a second, so its file is looked for first.
    """
    home = Path(environment.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    name = environment.get("AIRFLOW_CLI_ENVIRONMENT") or "production"
    if not (home / f"{name}.json").is_file():
        return None
    try:
        from airflowctl.api.client import ClientKind, Credentials
        from airflowctl.exceptions import AirflowCtlException
    except ImportError:
        return None
    try:
        # It says on the standard output, which is for the answer, that there is no keyring.
        with redirect_stdout(sys.stderr):
            kept = Credentials(api_token=environment.get("AIRFLOW_CLI_TOKEN"), client_kind=ClientKind.CLI).load()
    except (AirflowCtlException, ValueError, KeyError) as error:
        logger.warning("The login of airflowctl cannot be read: %s", error)
        return None
    return Login(kept.api_url, kept.api_token) if kept.api_url and kept.api_token else None
