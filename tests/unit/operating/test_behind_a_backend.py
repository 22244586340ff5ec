"""Records as workers with a `SqlStoreBackend` leave them in Airflow: small ones, large ones, encrypted ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.context import TaskStateStoreAccessor, _get_worker_state_store_backend
from airflow.sdk.state import TaskScope
from cryptography.fernet import Fernet

from airflow_resume.backends.values.codecs import PREFIX as ENCRYPTED_BY_US
from airflow_resume.backends.values.references import PREFIX
from airflow_resume.operating.places import ENCRYPTED, REFERENCE, Entry, TaskPlace
from airflow_resume.page import views
from tests.support.backends.supervisor import Supervisor
from tests.support.operating.fake_airflow import FakeAirflow
from tests.support.operating.records import LOOP, stopped_loop

Command = Callable[..., Any]
NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
THERE = ("d", "r", "t")
Keep = Callable[..., dict[str, Any]]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Keep]:
    """What Airflow's own accessor leaves in Airflow of a record, with the backend of the workers."""
    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    monkeypatch.setenv("AIRFLOW__WORKERS__STATE_STORE_BACKEND", "airflow_resume.backends.SqlStoreBackend")
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_URL", f"sqlite:///{tmp_path / 'state.db'}")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())

    def keep(record: dict[str, Any], **settings: str) -> dict[str, Any]:
        for name, value in settings.items():
            monkeypatch.setenv(f"AIRFLOW__AIRFLOW_RESUME__BACKEND_{name.upper()}", value)
        _get_worker_state_store_backend.cache_clear()
        with closing(_get_worker_state_store_backend()):  # type: ignore[type-var]
            TaskStateStoreAccessor(UUID(int=1), TaskScope(dag_id="d", run_id="r", task_id="t")).set(LOOP, record)
        return supervisor.kept

    yield keep
    _get_worker_state_store_backend.cache_clear()


def on_the_page(kept: dict[str, Any]) -> views.Card:
    """The card of the record, as the page makes it of Airflow's table."""
    place = TaskPlace(dag_id="d", run_id="r", task_id="t", state="failed", try_number=1)
    (card,) = views.cards_of([Entry.of_text(place, LOOP, json.dumps(kept[LOOP]), NOW)], NOW)
    return card


def test_a_small_record_is_shown_as_one_that_airflow_keeps_itself(
    kept: Keep, airflow: FakeAirflow, command: Command
) -> None:
    loop = stopped_loop()
    there = kept(loop)
    airflow.task(*THERE, **there)
    shown = json.loads(command("loops", "show", *THERE, "-o", "json").out)
    assert (shown["stored"], shown["done"], shown["state"]) == (loop, 7, "stopped")
    card = on_the_page(there)
    assert (card.line.progress, card.line.state) == ("7 of 10", "stopped")
    assert "__airflow_state_ref__" not in repr(card)


def test_a_large_record_is_shown_by_what_airflow_has_refers_to(
    kept: Keep, airflow: FakeAirflow, command: Command
) -> None:
    there = kept(stopped_loop(), inline_bytes="0")
    airflow.task(*THERE, **there)
    reference = there[LOOP]["__airflow_state_ref__"]
    words = f"{LOOP} in the database {reference.split(':')[2]} of SqlStoreBackend"
    shown = json.loads(command("loops", "show", *THERE, "-o", "json").out)
    assert (shown["stored"], shown["refers_to"], shown["state"]) == (reference, words, "elsewhere")
    assert f"refers to  {words}" in command("loops", "show", *THERE).out
    card = on_the_page(there)
    assert ("refers to", words) in card.facts
    assert card.forms == ()


def test_an_encrypted_record_is_said_to_be_encrypted_and_not_to_be_elsewhere(
    kept: Keep, airflow: FakeAirflow, command: Command
) -> None:
    there = kept(stopped_loop(), codec="fernet")
    airflow.task(*THERE, **there)
    shown = json.loads(command("loops", "show", *THERE, "-o", "json").out)
    assert (shown["state"], shown["refers_to"]) == ("encrypted", "an encrypted text in Airflow")
    assert shown["stored"].startswith(ENCRYPTED)
    card = on_the_page(there)
    assert card.line.state == "encrypted"
    assert card.advice is not None
    assert "backend_codec" in card.advice
    refused = command("loops", "restart", *THERE)
    assert refused.code == 4
    assert "is encrypted by the state backend" in refused.err


def test_what_another_backend_has_left_is_shown_as_it_is(airflow: FakeAirflow, command: Command) -> None:
    airflow.task(*THERE, **{LOOP: {"__airflow_state_ref__": "s3://bucket/a\x1b[2J" + "x" * 500}})
    shown = json.loads(command("loops", "show", *THERE, "-o", "json").out)
    assert shown["state"] == "elsewhere"
    assert shown["refers_to"].startswith("s3://bucket/a\\x1b[2Jxxx")
    assert len(shown["refers_to"]) < 250


def test_both_kinds_of_texts_are_known_by_their_beginnings() -> None:
    assert (REFERENCE, ENCRYPTED) == (PREFIX, ENCRYPTED_BY_US)
