"""The page is there only if somebody has switched it on, and even then only the API server imports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from airflow_resume.page.addresses import external_views

PAGE = "AIRFLOW__AIRFLOW_RESUME__PAGE"
LOADED = """
import json, sys
from airflow import plugins_manager
plugins_manager.ensure_plugins_loaded()
found = [plugin for plugin in plugins_manager._get_plugins()[0] if plugin.name == "airflow_resume"]
ours = ("airflow_resume.page", "airflow_resume.operating")
before = sorted(name for name in sys.modules if name.startswith(ours))
shown = [(view["destination"], view["href"]) for plugin in found for view in plugin.external_views] if SHOW else []
apps = [app["url_prefix"] for plugin in found for app in plugin.fastapi_apps] if SHOW else []
print("FOUND", json.dumps([len(found), before, shown, apps]))
"""


def loaded(tmp_path: Path, *, page: str | None, show: bool = False) -> Any:
    """What is loaded with Airflow's plugins, and which parts of the page there are."""
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)} | ({} if page is None else {PAGE: page})
    code = LOADED.replace("SHOW", str(show))
    ran = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    line = next(line for line in ran.stdout.splitlines() if line.startswith("FOUND "))
    return json.loads(line.removeprefix("FOUND "))


def test_without_the_setting_there_is_no_plugin(tmp_path: Path) -> None:
    for page in (None, "False"):
        plugins, modules, *_ = loaded(tmp_path, page=page)
        assert plugins == 0
        assert modules == [
            "airflow_resume.page", "airflow_resume.page.addresses", "airflow_resume.page.plugin",
        ]  # fmt: skip


def test_with_the_setting_a_process_that_serves_nothing_imports_no_more(tmp_path: Path) -> None:
    plugins, modules, *_ = loaded(tmp_path, page="True")
    assert plugins == 1
    assert modules == ["airflow_resume.page", "airflow_resume.page.addresses", "airflow_resume.page.plugin"]


def test_the_api_server_finds_an_app_and_where_it_is_shown(tmp_path: Path) -> None:
    _, _, shown, apps = loaded(tmp_path, page="True", show=True)
    assert apps == ["/airflow-resume"]
    assert {destination for destination, _ in shown} >= {"task_instance", "dag_run", "dag", "nav"}
    assert all(href.startswith("airflow-resume/") for _, href in shown)


def test_no_two_parts_have_the_same_name_in_an_address() -> None:
    views = external_views({"task_instance", "dag_run", "dag", "nav", "asset"})
    assert len(views) == len({view["url_route"] for view in views}) == 5


def test_a_destination_that_an_airflow_does_not_have_is_left_out() -> None:
    assert [view["destination"] for view in external_views({"nav"})] == ["nav"]


def test_a_dag_file_imports_nothing_of_the_page(tmp_path: Path) -> None:
    code = (
        "import sys; from airflow.sdk import DAG; import airflow_resume; from airflow_resume import checkpoint\n"
        "print(*[name for name in sys.modules if name.startswith('airflow_resume.page')])"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), PAGE: "True"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert ran.stdout.split() == []
