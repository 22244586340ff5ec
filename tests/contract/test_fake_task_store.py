from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar

import pytest

from airflow_resume.store import StateStore
from airflow_resume.task_stores import task_store
from airflow_resume.testing import FakeTaskStore, StoreContract
from airflow_resume.testing.contract import Ability

LOOKALIKES = "test_keys_that_look_alike_are_two"
DOUBTFUL = "test_what_json_cannot_hold_comes_back_unchanged_or_is_refused"


class TestFakeTaskStore(StoreContract):
    """Airflow's accessor, as a task gets it."""

    promises = (Ability.CLEANUP,)
    examples = 50  # every call is packed and unpacked as on its way to Airflow

    differs: ClassVar = {
        f"{LOOKALIKES}[a dot]": "Airflow deletes every key of the task if the key to delete is a dot",
        f"{DOUBTFUL}[nested NaN]": "Airflow stores null for a nested number that JSON cannot represent",
        f"{DOUBTFUL}[nested infinity]": "Airflow stores null for a nested number that JSON cannot represent",
        f"{DOUBTFUL}[250 levels]": "Airflow accepts a value of 250 levels, and every later get fails",
    }

    @pytest.fixture
    def fake(self) -> FakeTaskStore:
        return FakeTaskStore()

    @pytest.fixture
    def store(self, fake: FakeTaskStore) -> StateStore:
        return task_store({"task_state_store": fake})

    @pytest.fixture
    def cleanup(self, fake: FakeTaskStore) -> Callable[[], object]:
        def years_later() -> None:
            fake.clock.advance(timedelta(days=3650))
            fake.collect_garbage()

        return years_later
