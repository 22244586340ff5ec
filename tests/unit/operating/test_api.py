"""Requests to Airflow's REST API: who asks, what a busy or absent server leads to, pages."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.operating.api import (
    AT_ONCE,
    PASSWORD,
    TOKEN,
    TRIES,
    USER,
    AirflowApi,
    checked_url,
    path_of,
    user_of,
)
from airflow_resume.operating.places import Scope, task_places
from tests.support.operating.fake_airflow import FakeAirflow, token_of

PATH = "/dags/~/dagRuns/~/taskInstances"


@pytest.mark.parametrize(
    ("environment", "calls", "user"),
    [
        ({}, ["GET /auth/token"], "admin"),
        ({TOKEN: token_of("bo")}, [], "bo"),
        ({TOKEN: "opaque"}, [], None),
    ],
)
def test_who_asks_is_said_by_the_environment(
    airflow: FakeAirflow, environment: dict[str, str], calls: list[str], user: str | None
) -> None:
    with AirflowApi(airflow.url, environment=environment) as api:
        assert (airflow.calls, api.user, api.calls) == (calls, user, len(calls))


def test_a_user_logs_in_with_a_password_of_the_environment(airflow: FakeAirflow) -> None:
    airflow.users["ana"] = "secret"
    with AirflowApi(airflow.url, environment={USER: "ana", PASSWORD: "secret"}) as api:
        assert api.user == "ana"
    for environment in ({USER: "ana", PASSWORD: "wrong"}, {USER: "ana"}, {}):
        with pytest.raises(AirflowApiError, match="gave no token") as raised:
            AirflowApi(airflow.url, environment=environment)
        assert raised.value.status == 401
        assert "wrong" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, "<html>"), "the page of a proxy"),
        ((302, None), "the page of a proxy"),
        ((403, {"detail": "Invalid JWT token"}), "The token is not valid"),
        ((403, {"detail": "Forbidden"}), "This user may not do that"),
    ],
)
def test_an_answer_that_is_none_of_airflow_says_what_it_may_be(airflow: FakeAirflow, answer: Any, says: str) -> None:
    with AirflowApi(airflow.url, environment={TOKEN: "t"}) as api:
        airflow.answers.append(answer)
        with pytest.raises(AirflowApiError) as raised:
            api.get("/dags")
        assert says in str(raised.value.remedy)


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://", "", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not the address"):
        checked_url(url)


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    for url in ("https://ana:secret@host", "https://ana:secret@[::1", "ana:secret@host"):
        with pytest.raises(UsageError) as raised:
            checked_url(url)
        assert "secret" not in str(raised.value)
    assert checked_url("https://host/airflow/") == checked_url("https://host/airflow/api/v2") == "https://host/airflow"


@pytest.mark.parametrize("trouble", [(503, {}), (429, {}), (0, None), (502, {})])
def test_a_busy_server_is_asked_again_for_what_is_only_read(
    airflow: FakeAirflow, api: AirflowApi, trouble: tuple[int, object]
) -> None:
    airflow.answers += [trouble] * (TRIES - 1)
    assert api.get(PATH)["total_entries"] == 0
    airflow.answers += [trouble] * TRIES
    with pytest.raises(AirflowApiError):
        api.get(PATH)
    assert api.calls == len(airflow.calls) + 1 == 2 * TRIES + 1


def test_a_change_is_sent_once(airflow: FakeAirflow, api: AirflowApi) -> None:
    airflow.answers.append((503, {}))
    with pytest.raises(AirflowApiError, match="answered with 503"):
        api.change("PUT", "/assets/1/state-store/k", {"value": 1})
    assert len(airflow.calls) == 1


def test_a_token_that_has_expired_is_fetched_again(airflow: FakeAirflow, api: AirflowApi) -> None:
    airflow.answers.append((401, {}))
    assert api.get(PATH)["total_entries"] == 0
    assert airflow.calls == [f"GET /api/v2{PATH}", "GET /auth/token", f"GET /api/v2{PATH}"]


def test_what_one_may_not_do_is_said_and_not_repeated(airflow: FakeAirflow, api: AirflowApi) -> None:
    airflow.answers.append((403, {"detail": "Forbidden"}))
    with pytest.raises(AirflowApiError, match="This user may not do that") as raised:
        api.get(PATH)
    assert raised.value.status == 403


def test_a_thousand_mapped_instances_are_listed_in_ten_requests_and_a_few_at_a_time(
    airflow: FakeAirflow, api: AirflowApi
) -> None:
    for index in range(1_000):
        airflow.task("d", "r", "t", index)
    found = task_places(api, Scope(dag_id="d", run_id="r"))
    assert [place.map_index for place in found.places] == list(range(1_000))
    assert (len(airflow.calls), found.is_cut) == (10, False)
    assert airflow.most_at_once <= AT_ONCE


def test_ids_are_quoted() -> None:
    assert path_of("dags", "a b/c", "x", "manual__2026-01-01T00:00:00+00:00", -1) == (
        "/dags/a%20b%2Fc/x/manual__2026-01-01T00:00:00+00:00/-1"
    )
    assert [user_of(each) for each in ("", "x", "a.b.c", token_of("ana"))] == [None, None, None, "ana"]
