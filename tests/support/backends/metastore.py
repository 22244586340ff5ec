"""Airflow's metadata database for a test, removed afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.support.backends.databases import ask


@contextmanager
def metastore(home: Path) -> Iterator[None]:
    """Make it on SQLite in the folder with `airflow db migrate`, and let this process use it."""
    url = f"sqlite:///{home / 'airflow.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(home))
        patch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", url)
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
        with _used(url):
            yield


@contextmanager
def tables_in(url: str) -> Iterator[None]:
    """Make the tables that state needs in an empty database, and let this process use it."""
    from airflow import models as airflow_models
    from airflow import settings
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.models.base import Base
    from airflow.models.task_state_store import TaskStateStoreModel

    models: Any = airflow_models  # Airflow has no types here
    models.import_all_models()
    if make_url(url).get_backend_name() == "mysql":
        # Airflow has this for its ids, or indexes become too long. It knows only when it is started with such a URL.
        ask(url, f"ALTER DATABASE {make_url(url).database} CHARACTER SET utf8mb3 COLLATE utf8mb3_bin")
    with _used(url):
        ours = (TaskStateStoreModel.__table__, AssetStateStoreModel.__table__)
        Base.metadata.create_all(settings.engine, tables=_with_parents(ours))
        yield


def _with_parents(tables: Iterable[Any]) -> list[Any]:
    """The tables, and all that they refer to."""
    found, new = set(), set(tables)
    while new:
        found |= new
        new = {key.column.table for table in new for key in table.foreign_keys} - found
    return list(found)


@contextmanager
def _used(url: str) -> Iterator[None]:
    from airflow import settings as airflow_settings
    from sqlalchemy.pool import QueuePool

    settings: Any = airflow_settings  # Airflow has no types here
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", url)
        # psycopg is both. For MySQL there is no async driver here, and none is asked for.
        asynchronous = {"postgresql": url, "mysql": ""}.get(make_url(url).get_backend_name())
        if asynchronous is not None:
            patch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC", asynchronous)
        # A connection of the async engine belongs to one event loop, and every test has its own: no pool. The other
        # engine has one, as in an Airflow: a new connection reads the whole schema, which takes 10 ms.
        patch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_ENABLED", "False")
        settings.configure_vars()
        settings.configure_orm(pool_class=QueuePool)
        yield
        settings.dispose_orm(do_log=False)
    settings.configure_vars()


def only(scopes: list[Any]) -> None:
    """Empty the state stores, and add the Dag runs and assets that the scopes refer to."""
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
