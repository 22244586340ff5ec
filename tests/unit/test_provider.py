"""Airflow lists us as a provider, and knows which of our options is a secret."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_resume.backends.settings import DEFAULTS
from airflow_resume.provider import SECTION, get_provider_info

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


def test_airflows_schema_of_such_metadata_accepts_it() -> None:
    from airflow.providers_manager import _create_provider_info_schema_validator

    found = get_provider_info()
    validator: Any = _create_provider_info_schema_validator()  # type: ignore[no-untyped-call]
    validator.validate(found)
    known = validator.schema["properties"]
    assert set(found) <= set(known), "Airflow passes over what it does not know"
    for name, option in OPTIONS.items():
        assert set(option) <= set(validator.schema["definitions"]["option"]["properties"]), name
        assert option["description"].endswith("."), name


OPTIONS = get_provider_info()["config"][SECTION]["options"]


def test_the_section_has_each_option_that_is_read_and_no_other() -> None:
    root = Path(__file__).parents[2]
    text = "\n".join(path.read_text() for path in [*(root / "toolkit").rglob("*.py"), *(root / "mixins").rglob("*.py")])
    read = set(re.findall(r'configured\("(\w+)"\)|^OPTION = "(\w+)"', text, re.MULTILINE))
    named = {name for each in read for name in each if name}
    named |= {f"backend_{name}" for name in re.findall(r'_whole\("(\w+)", least', text)}
    for names in re.findall(r'^(?:SECTION, .* = "airflow_resume",|URL, CONNECTION =) (.*)$', text, re.MULTILINE):
        named |= set(re.findall(r'"(\w+)"', names))
    assert set(OPTIONS) == named


def test_the_defaults_are_those_of_the_code() -> None:
    told = {name.removeprefix("backend_"): option["default"] for name, option in OPTIONS.items() if option["default"]}
    assert told == {**{name: str(value) for name, value in DEFAULTS.items()}, "page": "False"}


def test_airflow_shows_the_section_with_its_descriptions(tmp_path: Path) -> None:
    listed = in_airflow(
        tmp_path,
        "import sys; sys.argv = ['airflow', 'config', 'list', '--section', 'airflow_resume', '--include-descriptions',"
        " '--include-env-vars']; from airflow.__main__ import main; main()",
    )
    for name, option in OPTIONS.items():
        assert f"AIRFLOW__AIRFLOW_RESUME__{name.upper()}" in listed
        assert option["description"][:40] in listed


def test_airflow_lists_the_link_of_a_job_and_each_class_is_there(tmp_path: Path) -> None:
    code = (
        "from airflow.providers_manager import ProvidersManager as M\n"
        "print([name for name in M().extra_links_class_names if name.startswith('airflow_resume')])"
    )
    shown = in_airflow(tmp_path, code)
    assert "['airflow_resume_mixins.job_link.JobLink']" in shown
    for name in get_provider_info()["extra-links"]:
        module, _, kind = name.rpartition(".")
        assert getattr(import_module(module), kind)().name == "Job"


def test_the_plugin_is_loaded_once(tmp_path: Path) -> None:
    code = (
        "from airflow import plugins_manager as m; m.ensure_plugins_loaded()\n"
        "print([plugin.name for plugin in m._get_plugins()[0]].count('airflow_resume'))"
    )
    for page, count in (("True", "1"), ("False", "0")):
        shown = in_airflow(
            tmp_path, code, AIRFLOW__AIRFLOW_RESUME__PAGE=page, AIRFLOW__CORE__LAZY_LOAD_PROVIDERS="False",
            AIRFLOW__CORE__LAZY_LOAD_PLUGINS="False",
        )  # fmt: skip
        assert shown.splitlines()[-1] == count


def test_airflow_lists_us_among_the_providers(tmp_path: Path) -> None:
    code = (
        "from airflow.providers_manager import ProvidersManager as M\n"
        "m = M(); m.initialize_providers_list(); print(m.providers['airflow-resume'].version)"
    )
    assert in_airflow(tmp_path, code).strip()
