from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.state import AssetScope, TaskScope

from airflow_resume.backends.values.scopes import key_digest, place_of
from airflow_resume.errors import InvalidKeyError

TASK: dict[str, Any] = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": 2}


def identity(scope: Any) -> str:
    return place_of(scope).identity


def test_the_scope_of_a_task_is_the_same_in_the_next_airflow() -> None:
    next_one = SimpleNamespace(**TASK, region_index=2, region_id=UUID(int=0))
    assert place_of(next_one) == place_of(TaskScope(**TASK))


def test_a_region_is_a_scope_of_its_own() -> None:
    assert identity(SimpleNamespace(**TASK, region_id=UUID(int=1))) != identity(TaskScope(**TASK))


def test_the_scope_of_the_server_is_that_of_the_worker() -> None:
    from airflow._shared.state import TaskScope as OfTheServer

    assert identity(OfTheServer(**TASK)) == identity(TaskScope(**TASK))


def test_an_asset_is_one_by_its_name_whether_its_uri_is_known_or_not() -> None:
    assert identity(AssetScope(name="orders", uri="s3://orders")) == identity(AssetScope(name="orders"))


def test_an_asset_that_is_known_by_id_is_one_whatever_its_name() -> None:
    assert identity(AssetScope(asset_id=1, name="orders")) == identity(AssetScope(asset_id=1))
    assert identity(AssetScope(asset_id=1, name="orders")) != identity(AssetScope(asset_id=2, name="orders"))


def test_a_name_is_no_uri() -> None:
    assert identity(AssetScope(name="s3://orders")) != identity(AssetScope(uri="s3://orders"))


def test_the_names_of_a_scope_cannot_be_joined_into_those_of_another() -> None:
    names = [("a", "b", "c"), ("a.b", "", "c"), ("a", "b.c", ""), ('a","b', "", "c")]
    scopes = [TaskScope(dag_id=dag, run_id=run, task_id=task) for dag, run, task in names]
    assert len({identity(scope) for scope in scopes}) == len(names)


def test_what_is_no_scope_is_refused() -> None:
    with pytest.raises(TypeError, match="neither the scope of a task nor that of an asset"):
        place_of("dag")


@pytest.mark.parametrize("key", ["", "k" * 513, "a\x00b", "\ud800", None, 7], ids=repr)
def test_what_can_be_no_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidKeyError, match="cannot be a key"):
        key_digest(key)


@pytest.mark.parametrize("key", [".", "..", "a\nb", " ", "k" * 512, "\U0001f600" * 512], ids=["dot", *"12345"])
def test_any_other_text_is_a_key(key: str) -> None:
    assert len(key_digest(key)) == 64
