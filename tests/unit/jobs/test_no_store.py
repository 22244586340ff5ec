"""Where there is no way to Airflow's state nothing is submitted, and the error says why and what to do."""

from __future__ import annotations

import pytest

from airflow_resume import run_job
from airflow_resume.errors import NoStateStoreError
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs

VARIABLE = "AIRFLOW_CTX_DAG_ID"


def test_in_a_process_that_a_task_has_started_the_message_names_the_decorators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "dag")
    jobs = FakeJobs()
    with pytest.raises(
        NoStateStoreError,
        match=r"as with @task\.virtualenv or @task\.external_python.*\nCall it from a plain @task, or pass `store=`",
    ):
        run_job(jobs)
    assert jobs.events == []


def test_elsewhere_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    jobs = FakeJobs()
    with pytest.raises(NoStateStoreError) as raised:
        run_job(jobs)
    assert "virtualenv" not in str(raised.value)
    assert jobs.events == []


def test_a_store_of_its_own_is_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "dag")
    assert run_job(FakeJobs(scripts=[["SUCCEEDED"]]), store=MemoryStore()) == {"job": "job-0"}
