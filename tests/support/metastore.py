"""Airflow's metadata database on SQLite, thrown away afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def metastore(home: Path) -> Iterator[None]:
    """Make the database in the folder, as `airflow db migrate` does, and have this process use it."""
    from sqlalchemy.pool import QueuePool

    from airflow import settings as airflow_settings

    settings: Any = airflow_settings  # Airflow has no types here
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(home))
        patch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{home / 'airflow.db'}")
        # A connection of the async engine belongs to one event loop, and every test has its own: no pool. The other
        # engine has one, as in an Airflow: a new connection reads the whole schema, which takes 10 ms.
        patch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_ENABLED", "False")
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
        settings.configure_vars()
        settings.configure_orm(pool_class=QueuePool)
        yield
        settings.dispose_orm(do_log=False)
    settings.configure_vars()


def only(scopes: list[Any]) -> None:
    """Empty the state stores, and let there be the Dag runs and assets that the scopes belong to."""
    from airflow.models.asset import AssetModel
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.models.dagrun import DagRun
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    runs = {(scope.dag_id, scope.run_id) for scope in scopes if hasattr(scope, "dag_id")}
    assets = {scope.asset_id: scope for scope in scopes if hasattr(scope, "asset_id")}
    with create_session() as session:
        for model in (TaskStateStoreModel, AssetStateStoreModel, DagRun, AssetModel):
            session.execute(delete(model))
        session.add_all([DagRun(dag_id=dag_id, run_id=run_id, run_type="manual") for dag_id, run_id in runs])
        session.add_all([AssetModel(id=id_, name=asset.name, uri=asset.uri, group="") for id_, asset in assets.items()])
