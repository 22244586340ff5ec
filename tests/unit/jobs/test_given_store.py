"""A store that is passed to `run_job` fails by name, as it does for a loop."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_resume import checkpoint, run_job
from airflow_resume.errors import StoreUnavailableError
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs

URL = "postgresql://user:hunter2@host"


class Broken(MemoryStore):
    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def get(self, key: str, default: Any = None) -> Any:
        self.may_raise("get")
        return super().get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.may_raise("set")
        super().set(key, value)

    def may_raise(self, method: str) -> None:
        if self.method == method:
            raise RuntimeError(URL)


@pytest.mark.parametrize("method", ["get", "set"])
def test_an_error_of_the_store_is_the_cause_of_a_named_one_and_nothing_is_submitted(method: str) -> None:
    jobs = FakeJobs()
    for use in (
        lambda: run_job(jobs, store=Broken(method)),
        lambda: list(checkpoint([1], name="l", store=Broken(method))),
    ):
        with pytest.raises(StoreUnavailableError, match=rf"Broken\.{method}\(\) raised RuntimeError") as caught:
            use()
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert "hunter2" not in str(caught.value)
    assert jobs.jobs == []
