"""What SQLAlchemy and the drivers log for us at DEBUG, and what they log for others."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest
from sqlalchemy import create_engine, text

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.dialects.registry import DIALECTS
from airflow_resume.backends.urls.driver_logs import hide_values
from airflow_resume.backends.urls.read import read_url

LOGGERS = [name for dialect in DIALECTS for name in dialect.loggers]
SECRET = "hunter2secret"  # noqa: S105  of nobody


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    for name in ("sqlalchemy", "sqlalchemy.engine", "sqlalchemy.pool", *LOGGERS):
        caplog.set_level(logging.DEBUG, logger=name)
    return caplog


def test_statements_are_logged_and_no_value_of_a_row_or_a_parameter(everything: pytest.LogCaptureFixture) -> None:
    with closing(SqlStoreBackend("sqlite://", keep_versions=2)) as backend:
        store = SqlStateStore(backend, "scope")
        store.set("key", SECRET)
        assert store.get("key") == SECRET
        assert [version.value for version in store.history("key")] == [SECRET]
    assert "SELECT" in everything.text
    assert "Row '<" in everything.text
    assert SECRET not in everything.text


def test_what_sqlalchemy_logs_for_others_is_left_alone(everything: pytest.LogCaptureFixture) -> None:
    with closing(SqlStoreBackend("sqlite://")) as backend:
        SqlStateStore(backend, "scope").set("key", 1)
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        connection.execute(text("SELECT :value"), {"value": "theirs"}).all()
    assert "Row ('theirs',)" in everything.text


@pytest.mark.parametrize("driver", LOGGERS)
def test_a_driver_logs_no_secret_of_ours_and_everything_else(driver: str, everything: pytest.LogCaptureFixture) -> None:
    for password in ("secret", SECRET, "hunter2"):
        hide_values(read_url(f"postgresql://me:{password}@host/db")[0], create_engine("sqlite://", logging_name="ours"))
    logging.getLogger(driver).debug("connection to %r failed: %s", "host", f"no {SECRET}")
    logging.getLogger(driver).debug("connection to %r failed: %s", "other", "no theirs")
    assert [record.getMessage() for record in everything.records] == [
        "connection to 'host' failed: no ***",
        "connection to 'other' failed: no theirs",
    ]
