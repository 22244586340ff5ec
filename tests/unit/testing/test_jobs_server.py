from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from airflow_resume.testing.fakes.job import JobEvent
from airflow_resume.testing.fakes.jobs import FakeJobs
from airflow_resume.testing.fakes.jobs_server import JobsServer


@pytest.fixture
def jobs() -> FakeJobs:
    return FakeJobs(scripts=[["RUNNING", "SUCCEEDED"]])


@pytest.fixture
def server(jobs: FakeJobs) -> Iterator[JobsServer]:
    with jobs.serve() as running:
        yield running


@pytest.fixture
def client(server: JobsServer) -> Iterator[httpx.Client]:
    with client_of(server) as opened:
        yield opened


def client_of(server: JobsServer) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False)


def answered(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()


# --- requests -------------------------------------------------------------------------------------------------


def test_a_job_is_submitted_asked_and_gives_its_result(jobs: FakeJobs, client: httpx.Client) -> None:
    assert answered(client.post("/jobs", json={"token": "a"})) == (201, {"id": "job-0"})
    assert [client.get("/jobs/job-0").json()["status"] for _ in range(3)] == ["RUNNING", "SUCCEEDED", "SUCCEEDED"]
    assert answered(client.get("/jobs/job-0/result")) == (200, {"job": "job-0"})
    assert [event.call for event in jobs.events] == ["submit", "status", "status", "status", "result"]


def test_ids_that_are_integers_stay_integers() -> None:
    jobs = FakeJobs(ids=int, can_find_by_slot=True)
    with jobs.serve() as server, client_of(server) as client:
        assert answered(client.post("/jobs", json={"token": "a"})) == (201, {"id": 0})
        assert answered(client.get("/jobs/0")) == (200, {"id": 0, "status": "RUNNING"})
        assert answered(client.get("/jobs?token=a")) == (200, [{"id": 0}])
        assert answered(client.get("/jobs?slot=a")) == (200, [{"id": 0, "token": "a"}])
        assert answered(client.get("/jobs/0/result")) == (200, {"job": 0})
        assert answered(client.delete("/jobs/0")) == (202, {"id": 0})
        assert client.get("/jobs/1").status_code == 404
    assert {type(event.job) for event in jobs.events if event.call != "find_jobs"} == {int}


@pytest.mark.parametrize("make", [lambda number: (number,), lambda number: {"id": number}, float, bool, bytes])
def test_ids_that_cannot_come_back_are_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="cannot be a part of a path"), FakeJobs(ids=make).serve():
        pass


@pytest.mark.parametrize(
    ("request_of_it", "token"),
    [
        ({"json": {"token": "a"}}, "a"),
        ({"headers": {"Idempotency-Key": "a"}}, "a"),
        ({"json": {"token": "a"}, "headers": {"Idempotency-Key": "b"}}, "a"),
        ({"json": {"script": "train.py"}}, None),
        ({}, None),
    ],
)
def test_the_token_is_in_the_body_or_in_the_header(
    jobs: FakeJobs, client: httpx.Client, request_of_it: dict[str, Any], token: str | None
) -> None:
    assert client.post("/jobs", **request_of_it).status_code == 201
    assert jobs.jobs[0].token == token


def test_the_newest_job_with_a_token_is_found(jobs: FakeJobs, client: httpx.Client) -> None:
    for token in ("a & b", "a & b", "c"):
        jobs.submit(token)
    assert answered(client.get("/jobs", params={"token": "a & b"})) == (200, [{"id": "job-1"}])
    assert answered(client.get("/jobs", params={"token": "other"})) == (200, [])


def test_a_job_is_cancelled(jobs: FakeJobs, client: httpx.Client) -> None:
    jobs.submit("a")
    assert answered(client.delete("/jobs/job-0")) == (202, {"id": "job-0"})
    assert [client.get("/jobs/job-0").json()["status"] for _ in range(2)] == ["CANCELLING", "CANCELLED"]


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/result"), ("DELETE", "")])
def test_an_unknown_and_a_forgotten_job_are_404(jobs: FakeJobs, client: httpx.Client, method: str, path: str) -> None:
    jobs.forget(jobs.submit("a"))
    for external_id in ("job-0", "job-7"):
        answer = client.request(method, f"/jobs/{external_id}{path}")
        assert answered(answer) == (404, {"error": f"no job {external_id}"})
    assert client.get("/jobs?token=a").json() == []


@pytest.mark.parametrize(
    ("asked", "body", "status"),
    [
        ("GET /", None, 404),
        ("DELETE /jobs", None, 404),
        ("POST /jobs/job-0", None, 404),
        ("GET /jobs", None, 400),
        ("POST /jobs", b"{", 400),
        ("POST /jobs", b"[]", 400),
        ("POST /jobs", b'{"token": 5}', 400),
        ("POST /jobs", b"\xff", 400),
    ],
)
def test_what_is_not_offered_or_not_readable_is_refused(
    jobs: FakeJobs, client: httpx.Client, asked: str, body: bytes | None, status: int
) -> None:
    answer = client.request(*asked.split(), content=body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert jobs.jobs == []


def test_what_the_job_system_lacks_is_405() -> None:
    with FakeJobs(can_find=False, can_cancel=False).serve() as server, client_of(server) as client:
        assert answered(client.get("/jobs?token=a")) == (405, {"error": "this job system has no find"})
        assert answered(client.get("/jobs?slot=a")) == (405, {"error": "this job system has no find_jobs"})
        assert answered(client.delete("/jobs/job-0")) == (405, {"error": "this job system has no cancel"})


def test_jobs_are_found_by_slot() -> None:
    with FakeJobs(can_find_by_slot=True).serve() as server, client_of(server) as client:
        for token in ("a.1", "b.1", "a.2"):
            client.post("/jobs", json={"token": token})
        found = [{"id": "job-0", "token": "a.1"}, {"id": "job-2", "token": "a.2"}]
        assert answered(client.get("/jobs?slot=a.")) == (200, found)


# --- failures -------------------------------------------------------------------------------------------------


def test_an_ordered_status_comes_once_before_or_after_the_work(
    jobs: FakeJobs, server: JobsServer, client: httpx.Client
) -> None:
    server.fail_next("submit", status=503)
    server.fail_next("submit", status=500, applied=True)
    assert answered(client.post("/jobs")) == (503, {"error": "ordered by the test"})
    assert jobs.jobs == []
    assert client.post("/jobs").status_code == 500
    assert len(jobs.jobs) == 1
    assert client.post("/jobs").status_code == 201


def test_a_lost_reply_leaves_exactly_one_job(jobs: FakeJobs, server: JobsServer, client: httpx.Client) -> None:
    server.fail_next("submit", applied=True)
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/jobs", json={"token": "a"})
    assert [job.token for job in jobs.jobs] == ["a"]
    assert client.get("/jobs?token=a").json() == [{"id": "job-0"}]


def test_a_connection_closed_before_the_work_leaves_none(
    jobs: FakeJobs, server: JobsServer, client: httpx.Client
) -> None:
    server.fail_next("submit")
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/jobs")
    assert (jobs.jobs, jobs.events) == ([], [])


def test_errors_ordered_from_the_fake_itself_have_an_answer_or_none(jobs: FakeJobs, client: httpx.Client) -> None:
    jobs.fail_next("submit", ValueError("quota"))
    jobs.fail_next("submit", TimeoutError(), applied=True)
    assert answered(client.post("/jobs")) == (500, {"error": "ValueError('quota')"})
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/jobs")
    assert len(jobs.jobs) == 1


def test_a_result_that_is_no_json_is_a_server_error(jobs: FakeJobs, client: httpx.Client) -> None:
    jobs.results = lambda _external_id: object()
    jobs.submit()
    assert client.get("/jobs/job-0/result").status_code == 500
    assert client.get("/jobs/job-0").status_code == 200


# --- processes and threads ------------------------------------------------------------------------------------

ANOTHER_PROCESS = """
import http.client, json, sys

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))

def ask(method, path, **headers):
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return json.loads(answer.read())

try:
    ask("POST", "/jobs", Idempotency_Key="a")
except http.client.RemoteDisconnected:
    connection.close()
found, = ask("GET", "/jobs?token=a")
status = ask("GET", "/jobs/" + found["id"])["status"]
print(json.dumps([found["id"], status, ask("GET", "/jobs/" + found["id"] + "/result")]))
"""


def test_a_client_in_another_process_finds_the_job_whose_reply_was_lost(jobs: FakeJobs, server: JobsServer) -> None:
    server.fail_next("submit", applied=True)
    port = server.url.rpartition(":")[2]
    done = subprocess.run([sys.executable, "-c", ANOTHER_PROCESS, port], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == ["job-0", "RUNNING", {"job": "job-0"}]
    assert jobs.events == [
        JobEvent("submit", "job-0"),
        JobEvent("find", "job-0"),
        JobEvent("status", "job-0"),
        JobEvent("result", "job-0"),
    ]


class ArrivalLock:
    """A lock that tells of the second thread that wants it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._arrived = 0
        self.two_are_here = threading.Event()

    def __enter__(self) -> None:
        self._arrived += 1
        if self._arrived == 2:
            self.two_are_here.set()
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


class Scripts(list[list[str]]):
    """The first job is only started once the second submit has arrived."""

    two_are_here: threading.Event

    def __getitem__(self, number: Any) -> Any:
        assert self.two_are_here.wait(30)
        return super().__getitem__(number)


def test_two_threads_that_submit_a_token_at_once_get_one_job() -> None:
    lock, scripts = ArrivalLock(), Scripts([["RUNNING"]])
    scripts.two_are_here = lock.two_are_here
    jobs = FakeJobs(dedupes=True, scripts=scripts)
    jobs._lock = lock  # type: ignore[assignment]
    with jobs.serve() as server, client_of(server) as client, ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda token: client.post("/jobs", json={"token": token}).json(), ["a", "a"]))
    assert answers == [{"id": "job-0"}, {"id": "job-0"}]
    assert [job.id for job in jobs.jobs] == ["job-0"]


def test_at_the_end_nobody_listens_and_no_thread_is_left_although_clients_stay_connected(jobs: FakeJobs) -> None:
    before = set(threading.enumerate())
    with jobs.serve() as server:
        busy, silent = client_of(server), socket.create_connection(address(server))
        busy.post("/jobs")
        assert len(set(threading.enumerate()) - before) >= 2
    assert set(threading.enumerate()) <= before
    assert silent.recv(1) == b""
    with pytest.raises(httpx.RequestError):
        busy.get("/jobs/job-0")
    silent.close()
    busy.close()


def address(server: JobsServer) -> tuple[str, int]:
    return "127.0.0.1", int(server.url.rpartition(":")[2])


def test_it_ends_when_the_block_fails(jobs: FakeJobs) -> None:
    before = set(threading.enumerate())
    with pytest.raises(KeyError), jobs.serve():
        raise KeyError
    assert set(threading.enumerate()) <= before


def test_a_port_can_be_chosen_and_a_taken_one_is_an_error(jobs: FakeJobs, server: JobsServer) -> None:
    _, port = address(server)
    with pytest.raises(OSError, match="in use"), jobs.serve(port=port):
        pass


def test_the_calls_of_clients_are_no_points(jobs: FakeJobs, client: httpx.Client) -> None:
    seen: list[str] = []
    jobs.observer = lambda _phase, what: seen.append(what)
    client.post("/jobs")
    client.delete("/jobs/job-0")
    assert seen == []
    jobs.submit()
    assert seen == ["submit", "submit"]
