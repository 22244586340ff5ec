from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import psutil
import pytest

import job
import job_service
from job import Pace, mean_delays
from job_service import JobService
from processes import is_alive

Connect = Callable[[str], httpx.Client]
Eventually = Callable[[Callable[[], object]], None]
FOREVER, PATIENCE = 600.0, 60.0


@pytest.fixture
def service(tmp_path: Path, flights_zip: Path) -> Iterator[JobService]:
    with JobService(folder=tmp_path / "jobs", flights=flights_zip) as running:
        yield running


@pytest.fixture
def client(service: JobService, connect: Connect) -> httpx.Client:
    return connect(service.url)


def submit(client: httpx.Client, *, token: str | None = None, label: str = "", seconds: float = FOREVER) -> int:
    body = {"token": token, "label": label, "seconds": seconds}
    number: int = client.post("/jobs", json=body).raise_for_status().json()["id"]
    return number


def status(client: httpx.Client, number: int) -> str:
    found: str = client.get(f"/jobs/{number}").raise_for_status().json()["status"]
    return found


def stats(client: httpx.Client, label: str) -> tuple[int, int, int]:
    found = client.get("/stats", params={"label": label}).json()
    return found["submitted"], found["alive"], found["max_alive"]


def test_a_job_computes_the_mean_delay_of_each_carrier(client: httpx.Client, eventually: Eventually) -> None:
    number = submit(client, label="a")
    assert number == 0
    assert status(client, number) == "RUNNING"
    assert client.get(f"/jobs/{number}/result").status_code == 409
    client.post("/hurry", json={"label": "a"}).raise_for_status()
    eventually(lambda: status(client, number) != "RUNNING")
    assert status(client, number) == "SUCCEEDED"
    assert client.get(f"/jobs/{number}/result").json() == {"UA": 2.5}
    assert client.delete(f"/jobs/{number}").json()["status"] == "SUCCEEDED"


def test_a_cancelled_job_is_gone_when_the_answer_arrives(client: httpx.Client) -> None:
    number = submit(client)
    pid = client.get(f"/jobs/{number}").json()["pid"]
    assert os.getsid(pid) == pid  # detached
    assert client.delete(f"/jobs/{number}").json()["status"] == "CANCELLED"
    assert not psutil.pid_exists(pid)
    assert client.get(f"/jobs/{number}/result").status_code == 409


def test_a_token_is_recognised_where_that_is_asked_for(client: httpx.Client) -> None:
    known = "a"
    first = submit(client, token=known)
    assert client.post("/jobs", json={"token": known, "seconds": FOREVER, "once": True}).json()["id"] == first
    assert client.post("/jobs", json={"token": "b", "seconds": FOREVER, "once": True}).json()["id"] != first
    assert submit(client, token=known) > first
    assert stats(client, "")[0] == 3


def test_jobs_are_found_by_the_beginning_of_their_token(client: httpx.Client) -> None:
    numbers = [submit(client, token=token) for token in ("ab", "ac", "b")]
    submit(client)
    found = client.get("/jobs", params={"token_prefix": "a"}).json()
    assert [each["id"] for each in found] == [numbers[1], numbers[0]]


def test_a_job_that_dies_has_failed(client: httpx.Client, eventually: Eventually) -> None:
    number = submit(client)
    os.kill(client.get(f"/jobs/{number}").json()["pid"], signal.SIGKILL)
    eventually(lambda: status(client, number) == "FAILED")


def test_the_jobs_of_a_label_hurry_when_told_and_so_do_those_to_come(
    client: httpx.Client, eventually: Eventually
) -> None:
    before, other = submit(client, label="a"), submit(client, label="b")
    client.post("/hurry", json={"label": "a"}, headers={"X-Run-Label": "b"}).raise_for_status()
    after = submit(client, label="a")
    eventually(lambda: {status(client, number) for number in (before, after)} == {"SUCCEEDED"})
    assert status(client, other) == "RUNNING"


def test_a_token_is_looked_up_newest_first_and_not_recognised_at_submission(client: httpx.Client) -> None:
    numbers = [submit(client, token=token) for token in ("t", "u", "t")]
    assert numbers == [0, 1, 2]
    assert [found["id"] for found in client.get("/jobs", params={"token": "t"}).json()] == [2, 0]
    assert client.get("/jobs", params={"token": "v"}).json() == []


def test_the_most_jobs_alive_at_once_are_counted_for_each_label(client: httpx.Client) -> None:
    first = submit(client, label="plain")
    submit(client, label="other")
    client.delete(f"/jobs/{first}")
    second = submit(client, label="plain")
    assert stats(client, "plain") == (2, 1, 1)
    submit(client, label="plain")
    client.delete(f"/jobs/{second}")
    assert stats(client, "plain") == (3, 1, 2)
    assert stats(client, "nobody") == (0, 0, 0)


@pytest.mark.parametrize("path", ["/jobs/0", "/jobs/-1", "/jobs/x", "/jobs/0/result"])
def test_an_unknown_job_is_not_found(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_submission_can_be_held_by_the_label_of_its_job(client: httpx.Client, eventually: Eventually) -> None:
    hold = client.post("/holds", json={"label": "a", "path_prefix": "/jobs", "method": "POST"}).json()["id"]
    body = {"label": "a", "seconds": FOREVER}
    with pytest.raises(httpx.ReadTimeout):
        client.post("/jobs", json=body, timeout=httpx.Timeout(PATIENCE, read=0.05))
    eventually(lambda: client.get(f"/holds/{hold}").json()["reached"])
    assert stats(client, "a") == (1, 1, 1)


def test_a_service_that_stops_ends_its_jobs(tmp_path: Path, flights_zip: Path, connect: Connect) -> None:
    with JobService(folder=tmp_path, flights=flights_zip) as service:
        client = connect(service.url)
        pid = client.get(f"/jobs/{submit(client)}").json()["pid"]
    assert not psutil.pid_exists(pid)


def test_a_service_that_is_killed_leaves_no_job_behind(
    tmp_path: Path, flights_zip: Path, connect: Connect, eventually: Eventually
) -> None:
    port_file = tmp_path / "port"
    options = {"--folder": tmp_path / "jobs", "--flights": flights_zip, "--port-file": port_file}
    command = [job_service.__file__, *(str(part) for option in options.items() for part in option)]
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL) as program:
        eventually(port_file.exists)
        client = connect(f"http://127.0.0.1:{port_file.read_text()}")
        running = psutil.Process(client.get(f"/jobs/{submit(client)}").json()["pid"])
        program.kill()
    eventually(lambda: not is_alive(running))


def test_a_job_ends_when_its_parent_is_another() -> None:
    with pytest.raises(SystemExit, match="gone"):
        job.require_parent(os.getpid())
    job.require_parent(os.getppid())


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_work_is_paced_by_the_part_that_is_done() -> None:
    time, checks = Time(), list[float]()
    pace = Pace(10, check=lambda: checks.append(time.now), clock=lambda: time.now, sleep=time.sleep)
    pace.reach(0.5)
    assert time.now == pytest.approx(5)
    pace.reach(0.25)
    assert time.now == pytest.approx(5)
    assert max(after - before for before, after in pairwise(checks)) <= 0.0501


def test_work_in_a_hurry_is_not_paced() -> None:
    time = Time()
    pace = Pace(10, check=lambda: None, hurry=lambda: time.now > 1, clock=lambda: time.now, sleep=time.sleep)
    pace.reach(0.5)
    assert time.now == pytest.approx(1, abs=0.06)


def test_flights_that_never_arrived_have_no_delay() -> None:
    lines = ["carrier,arr_delay\n", "UA,10\n", "B6,NA\n", "UA,-5\n", "AA,0\n"]
    pace = Pace(0, check=lambda: None)
    assert mean_delays(lines, size=sum(map(len, lines)), pace=pace) == {"AA": 0.0, "UA": 2.5}
