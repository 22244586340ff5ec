"""Requests to Airflow's REST API: who asks, what a busy or absent server leads to, pages."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_resume.errors import AirflowApiError, UsageError
from airflow_resume.operating import waits
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


class Silent:
    """A server that takes connections and never answers."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    with server.socket:
        yield server


def test_a_server_that_never_answers_is_waited_for_once_and_not_in_each_try(silent: Silent) -> None:
    with AirflowApi(silent.url, environment={TOKEN: "t"}, timeout=0.5) as api:
        began = time.monotonic()
        with pytest.raises(AirflowApiError, match=r"has not answered GET /api/v2/dags within 0.5 s") as raised:
            api.get("/dags")
        assert time.monotonic() - began < 1.5
    assert "--timeout" in str(raised.value.remedy)


def test_what_is_waited_for_long_is_said(silent: Silent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "QUIET_SECONDS", 0.1)
    said: list[str] = []
    with pytest.raises(AirflowApiError, match="has not answered GET /auth/token"):
        AirflowApi(silent.url, environment={}, timeout=1, say=said.append)
    assert re.fullmatch(rf"waiting for {silent.url} \(GET /auth/token\), for \d s now", said[0])
    assert 2 <= len(said) <= 5, "each time that it has taken twice as long"
    count = len(said)
    time.sleep(0.3)
    assert len(said) == count


def test_what_is_answered_soon_is_not_said(airflow: FakeAirflow) -> None:
    said: list[str] = []
    with AirflowApi(airflow.url, environment={}, say=said.append) as api:
        api.get(PATH)
    assert said == []


def test_the_command_ends_when_its_time_is_over(silent: Silent, command: Callable[..., Any]) -> None:
    code, out, err = command("loops", "list", "--airflow", silent.url, "--timeout", "0.3")
    assert (code, out) == (1, "")
    assert "has not answered GET /auth/token within 0.3 s" in err


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
