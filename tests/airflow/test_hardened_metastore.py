"""The hardened backend on the server of a real Airflow."""

from __future__ import annotations

from pathlib import Path

from local_airflow import LocalAirflow

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "hardened"
BACKEND = "airflow_resume.backends.HardenedMetastoreBackend"


def test_a_killed_task_resumes_and_what_has_expired_is_cleaned(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    env = {"AIRFLOW__STATE_STORE__BACKEND": BACKEND, "DIARY": str(diary)}
    with LocalAirflow(tmp_path / "home", DAGS, env=env) as airflow:
        airflow.wait_until_parsed("killed_once")
        run = airflow.trigger("killed_once")
        assert airflow.wait_for_run("killed_once", run) == "success"
        assert diary.read_text().splitlines() == ["1 0", "1 1", "1 2", "1 3", "2 3", "2 4", "2 5"]
        assert airflow.xcom("killed_once", run, "load") == 1
        # Airflow's UI and REST see it all, as it is in Airflow's own tables.
        kept = airflow.state_store("killed_once", run, "load")
        assert sorted(kept) == ["attempts", "resume.loop.rows", "short"]
        assert airflow.asset_state_store("hardened_rows") == {"attempt": 2}
        said = tmp_path / "home" / "logs-of-processes" / "state-store-clean.log"
        airflow.command("state-store", "clean", "--dry-run")
        assert "Would delete 1 task state store row(s)" in said.read_text()
        assert airflow.state_store("killed_once", run, "load") == kept
        airflow.command("state-store", "clean")
        assert "Deleted 1 expired rows of task_state_store" in said.read_text()  # in our words: it is our backend
        del kept["short"]
        assert airflow.state_store("killed_once", run, "load") == kept
