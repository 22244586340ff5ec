from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import flights_service
from flights_service import FlightsService
from flights_source import FlightsSource, Row, open_csv

Connect = Callable[[str], httpx.Client]
Eventually = Callable[[Callable[[], object]], None]

# In the order of the file; the pages have another.
ROWS: list[Row] = [
    {"time_hour": "2013-01-01T11:00:00Z", "minute": 0, "carrier": "UA", "flight": 1},
    {"time_hour": "2013-01-01T10:00:00Z", "minute": 30, "carrier": "AA", "flight": 2, "arr_delay": -4},
    {"time_hour": "2013-01-01T10:00:00Z", "minute": 15, "carrier": "B6", "flight": 3, "tailnum": "N1"},
    {"time_hour": "2013-01-01T12:00:00Z", "minute": 59, "carrier": "DL", "flight": 4},
]
IN_ORDER = [2, 1, 0, 3]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FlightsService]:
    with FlightsService(FlightsSource(ROWS), database=tmp_path / "warehouse.db") as running:
        yield running


@pytest.fixture
def client(service: FlightsService, connect: Connect) -> httpx.Client:
    return connect(service.url)


def ids(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def arm(client: httpx.Client, **options: str | int) -> str:
    hold = client.post("/holds", json=options).raise_for_status().json()["id"]
    return f"/holds/{hold}"


def load(client: httpx.Client, loaded: list[int], batch: str | int | None = None) -> int:
    rows = [{"id": number, "time_hour": ROWS[number]["time_hour"]} for number in loaded]
    answer = client.post("/warehouse/flights", json={"rows": rows, "batch": batch})
    found: int = answer.raise_for_status().json()["loaded"]
    return found


def audit(client: httpx.Client, **params: str) -> tuple[int, int, int]:
    found = client.get("/warehouse/flights/audit", params=params).raise_for_status().json()
    return found["rows_loaded"], found["rows_duplicated"], found["rows_lost"]


class TestPages:
    def test_tokens_lead_through_all_rows_in_the_order_of_their_arrival(self, client: httpx.Client) -> None:
        seen, params = [], {"limit": "3"}
        while True:
            answer = client.get("/flights", params=params)
            seen.append(ids(answer))
            if (token := answer.json()["next"]) is None:
                break
            params["token"] = token
        assert seen == [IN_ORDER[:3], IN_ORDER[3:]]
        assert answer.json()["total"] == 4

    def test_a_row_has_all_fields_and_null_for_what_is_not_known(self, client: httpx.Client) -> None:
        first = client.get("/flights", params={"limit": 1}).json()["items"][0]
        assert first == {
            "id": 2,
            "time_hour": "2013-01-01T10:00:00Z",
            "minute": 15,
            "carrier": "B6",
            "flight": 3,
            "tailnum": "N1",
            **dict.fromkeys(("origin", "dest", "dep_delay", "arr_delay", "distance")),
        }

    @pytest.mark.parametrize(
        ("params", "expected"),
        [
            ({"from": "2013-01-01T10:00:00Z", "to": "2013-01-01T11:00:00Z"}, [2, 1]),
            ({"from": "2013-01-01T10:00:01Z", "to": "2013-01-01T13:00:00Z"}, [0, 3]),
            ({"to": "2013-01-01T10:00:00Z"}, []),
            ({"from": "2013-01-01T12:00:00+01:00", "to": "2013-01-01T13:00:00+01:00"}, [0]),
            ({"since": "2013-01-01T10:00:00Z"}, [0, 3]),
            ({"since": "2013-01-01T12:00:00Z"}, []),
            ({"from": "2013-01-01T12:00:00Z", "to": "2013-01-01T10:00:00Z"}, []),
        ],
    )
    def test_ranges_are_half_open(self, client: httpx.Client, params: dict[str, str], expected: list[int]) -> None:
        answer = client.get("/flights", params=params)
        assert ids(answer) == expected
        assert answer.json()["total"] == len(expected)
        assert answer.json()["next"] is None

    def test_tokens_stay_in_their_range(self, client: httpx.Client) -> None:
        params = {"from": "2013-01-01T10:00:00Z", "to": "2013-01-01T12:00:00Z", "limit": "2"}
        token = client.get("/flights", params=params).json()["next"]
        assert ids(client.get("/flights", params={**params, "token": token})) == [0]

    @pytest.mark.parametrize(
        "params",
        [
            {"token": "7"},
            {"token": "é"},
            {"token": "cm93Ojk5"},  # a row beyond the last
            {"limit": "0"},
            {"limit": "many"},
            {"since": "yesterday"},
            {"from": "2013-01-01T10:00:00"},
        ],
    )
    def test_what_cannot_be_understood_is_a_bad_request(self, client: httpx.Client, params: dict[str, str]) -> None:
        answer = client.get("/flights", params=params)
        assert answer.status_code == 400
        assert answer.json()["error"]


class TestClock:
    def test_a_row_is_there_from_the_minute_of_its_arrival(self, client: httpx.Client) -> None:
        client.post("/clock", json={"now": "2013-01-01T10:29:59Z"}).raise_for_status()
        assert ids(client.get("/flights")) == [2]
        client.post("/clock", json={"now": "2013-01-01T10:30:00Z"}).raise_for_status()
        assert ids(client.get("/flights")) == [2, 1]

    def test_a_token_leads_on_to_rows_that_arrived_meanwhile(self, client: httpx.Client) -> None:
        client.post("/clock", json={"now": "2013-01-01T10:30:00Z"})
        token = client.get("/flights", params={"limit": 1}).json()["next"]
        client.post("/clock", json={"now": None})
        assert ids(client.get("/flights", params={"token": token})) == [1, 0, 3]

    def test_it_can_be_read(self, client: httpx.Client) -> None:
        assert client.get("/clock").json() == {"now": None}
        client.post("/clock", json={"now": "2013-01-01T10:30:00Z"})
        assert client.get("/clock").json() == {"now": "2013-01-01T10:30:00Z"}

    def test_it_cannot_be_set_to_nonsense(self, client: httpx.Client) -> None:
        assert client.post("/clock", json={"now": "noon"}).status_code == 400
        assert client.get("/clock").json() == {"now": None}


class TestWarehouse:
    def test_a_batch_replaces_itself(self, client: httpx.Client) -> None:
        assert load(client, [2, 1], batch="page 1") == 2
        assert load(client, [2, 1, 0], batch="page 1") == 3
        assert load(client, [3], batch=2) == 1
        assert audit(client) == (4, 0, 0)

    def test_without_a_batch_rows_are_appended(self, client: httpx.Client) -> None:
        load(client, [2, 1])
        load(client, [2, 1])
        load(client, [2])
        assert audit(client) == (5, 3, 2)

    def test_rows_that_have_not_arrived_are_not_lost(self, client: httpx.Client) -> None:
        client.post("/clock", json={"now": "2013-01-01T11:00:00Z"})
        load(client, [2])
        assert audit(client) == (1, 0, 2)
        assert audit(client, until="2013-01-01T11:00:00Z") == (1, 0, 1)

    def test_tables_are_separate(self, client: httpx.Client) -> None:
        load(client, [0], batch="a")
        assert client.get("/warehouse/other/audit").json()["rows_loaded"] == 0

    def test_a_load_that_is_refused_changes_nothing(self, client: httpx.Client) -> None:
        load(client, [0], batch="a")
        body = {"rows": [{"id": 1}], "batch": "a"}
        assert client.post("/warehouse/flights", json=body).status_code == 400
        assert audit(client) == (1, 0, 3)


def test_statistics_are_kept_for_each_label(client: httpx.Client) -> None:
    for params in ({"limit": "2"}, {"limit": "2"}, {"since": "2013-01-01T10:00:00Z"}):
        client.get("/flights", params=params, headers={"X-Run-Label": "plain"})
    load(client, [0])
    assert client.get("/stats").json() == {
        "plain": {"page_requests": 3, "distinct_pages": 2, "repeated_page_requests": 1, "loads": 0},
        "": {"page_requests": 0, "distinct_pages": 0, "repeated_page_requests": 0, "loads": 1},
    }


class TestHolds:
    def test_a_held_load_is_committed_and_its_client_can_vanish(
        self,
        service: FlightsService,
        client: httpx.Client,
        eventually: Eventually,
    ) -> None:
        threads = threading.active_count()
        hold = arm(client, label="a", path_prefix="/warehouse/", nth=1)
        body = json.dumps({"rows": [{"id": 0, "time_hour": "2013-01-01T11:00:00Z"}], "batch": "b"})
        with socket.create_connection(("127.0.0.1", service.port)) as doomed:
            head = f"POST /warehouse/flights HTTP/1.1\r\nX-Run-Label: a\r\nContent-Length: {len(body)}\r\n\r\n"
            doomed.sendall((head + body).encode())
            eventually(lambda: client.get(hold).json()["reached"])
            assert audit(client) == (1, 0, 3)  # others are answered meanwhile
            doomed.setblocking(False)
            with pytest.raises(BlockingIOError):
                doomed.recv(1)
        eventually(lambda: threading.active_count() <= threads + 1)  # the client keeps one connection

    def test_a_released_reply_arrives(
        self, service: FlightsService, client: httpx.Client, connect: Connect, eventually: Eventually
    ) -> None:
        hold = arm(client, label="a", path_prefix="/clock", method="GET")
        held, answers = connect(service.url), list[object]()
        asking = threading.Thread(
            target=lambda: answers.append(held.get("/clock", headers={"X-Run-Label": "a"}).json())
        )
        asking.start()
        eventually(lambda: client.get(hold).json()["reached"])
        assert answers == []
        client.delete(hold).raise_for_status()
        asking.join()
        assert answers == [{"now": None}]

    def test_an_unknown_hold_is_not_found(self, client: httpx.Client) -> None:
        assert client.get("/holds/7").status_code == 404
        assert client.delete("/holds/x").status_code == 404

    def test_a_hold_needs_a_label_and_a_positive_count(self, client: httpx.Client) -> None:
        assert client.post("/holds", json={"path_prefix": "/"}).status_code == 400
        assert client.post("/holds", json={"label": "", "path_prefix": "/", "nth": 0}).status_code == 400


def test_an_unknown_path_is_not_found(client: httpx.Client) -> None:
    assert client.get("/").status_code == 404


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_body_must_be_a_json_object(client: httpx.Client, content: str) -> None:
    assert client.post("/clock", content=content).status_code == 400


def test_a_failure_of_the_service_is_told_to_the_client(
    service: FlightsService, client: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    service.close()
    assert client.post("/warehouse/flights", json={"rows": []}).status_code == 500
    assert "ProgrammingError" in capsys.readouterr().err


def test_the_published_file_is_read_as_it_is(flights_zip: Path) -> None:
    page = FlightsSource.published(flights_zip).page()
    assert [json.loads(row)["arr_delay"] for row in page.rows] == [10, -5, None]
    with open_csv(flights_zip) as (lines, size):
        assert sum(map(len, lines)) == size


def test_the_program_serves_until_it_is_asked_to_end(
    tmp_path: Path, flights_zip: Path, connect: Connect, eventually: Eventually
) -> None:
    port_file = tmp_path / "port"
    options = {"--database": tmp_path / "w.db", "--flights": flights_zip, "--port-file": port_file}
    command = [flights_service.__file__, *(str(part) for option in options.items() for part in option)]
    with subprocess.Popen([sys.executable, *command]) as program:
        eventually(port_file.exists)
        answer = connect(f"http://127.0.0.1:{port_file.read_text()}").get("/flights")
        program.send_signal(signal.SIGTERM)
    assert ids(answer) == [0, 1, 2]
    assert program.returncode == 0
