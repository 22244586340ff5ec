"""Airflow lists us as a provider, and knows which of our options is a secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

URL = "postgresql://user:s3cret@host/state"
VARIABLE = "AIRFLOW__AIRFLOW_RESUME__BACKEND_URL"


def in_airflow(tmp_path: Path, code: str, **environment: str) -> str:
    """What a fresh process prints."""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_api_of_airflow_hides_the_url(tmp_path: Path) -> None:
    code = "from airflow.configuration import conf; print(conf.as_dict(display_sensitive=False)['airflow_resume'])"
    shown = in_airflow(tmp_path, code, **{VARIABLE: URL})
    assert "s3cret" not in shown
    assert "'backend_url': '< hidden >'" in shown


def test_the_url_may_come_from_a_command(tmp_path: Path) -> None:
    code = "from airflow_resume.backends import SqlStoreBackend; print(SqlStoreBackend())"
    shown = in_airflow(tmp_path, code, **{f"{VARIABLE}_CMD": f"echo {URL}"})
    assert shown.splitlines()[-1] == "<SqlStoreBackend postgresql+psycopg://user:***@host/state>"


def test_the_url_may_come_from_a_secrets_backend(tmp_path: Path) -> None:
    code = "from airflow_resume.backends import SqlStoreBackend; print(SqlStoreBackend())"
    (tmp_path / "our_secrets.py").write_text(
        "from airflow.secrets.base_secrets import BaseSecretsBackend\n"
        "class Ours(BaseSecretsBackend):\n"
        f"    def get_config(self, key): return {{'the url': {URL!r}}}[key]\n"
    )
    shown = in_airflow(
        tmp_path,
        code,
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        AIRFLOW__SECRETS__BACKEND="our_secrets.Ours",
        AIRFLOW__WORKERS__SECRETS_BACKEND="our_secrets.Ours",
        **{f"{VARIABLE}_SECRET": "the url"},
    )
    assert shown.splitlines()[-1] == "<SqlStoreBackend postgresql+psycopg://user:***@host/state>"


def test_airflow_lists_us_among_the_providers(tmp_path: Path) -> None:
    code = (
        "from airflow.providers_manager import ProvidersManager as M\n"
        "m = M(); m.initialize_providers_list(); print(m.providers['airflow-resume'].version)"
    )
    assert in_airflow(tmp_path, code).strip()
