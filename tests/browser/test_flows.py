"""A person on call clicks through a real Airflow, and the next attempt goes by what was clicked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from local_airflow import LocalAirflow
from tests.airflow.test_operating import DAGS, TASK, Operated, pages
from tests.browser.conftest import Watched

Opened = Callable[..., Watched]
FRAME = "iframe[title=Resume]"


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    home = Path(tmp_path_factory.mktemp("flows"))
    board = home / "board"
    board.mkdir()
    env = {"BOARD": str(board), "AIRFLOW__AIRFLOW_RESUME__PAGE": "True"}
    with LocalAirflow(home / "airflow", DAGS, env=env) as airflow:
        for dag_id in ("steered_loop", "steered_job", "steered_mark"):
            airflow.wait_until_parsed(dag_id)
        yield Operated(airflow, board)


class Person:
    """Somebody who looks at the tab of a task instance."""

    def __init__(self, operated: Operated, opened: Opened) -> None:
        self.url = operated.airflow.ui_url
        token = httpx.get(f"{self.url}/auth/token", trust_env=False).json()["access_token"]
        self.watched = opened(self.url, token)
        self.tab = self.watched.tab

    def opens(self, dag_id: str, run_id: str) -> None:
        """From the Dag run on, by clicks."""
        self.tab.goto(f"{self.url}/dags/{dag_id}/runs/{quote(run_id)}/tasks/{TASK}")
        self.tab.get_by_role("link", name="Resume", exact=True).click()
        self.page.locator("h1").wait_for()

    @property
    def page(self) -> Any:
        return self.tab.frame_locator(FRAME)

    def previews(self, verb: str, **typed: str) -> str:
        """Type into a form, and read its preview."""
        if self.page.locator("details.actions").get_attribute("open") is None:
            self.page.locator("details.actions > summary").click()
        for name, text in typed.items():
            self.page.locator(f"form.{verb} input[name={name}]").fill(text)
        self.page.locator(f"form.{verb} button").click()
        self.page.locator("#preview").wait_for()
        return str(self.page.locator("main").inner_text())

    def confirms(self) -> str:
        self.page.locator("#confirm").click()
        self.page.locator("#done").wait_for()
        return str(self.page.locator("main").inner_text())

    def had_no_trouble(self) -> None:
        ours = [each for each in self.watched.complaints if "/airflow-resume/" in each or "Content Security" in each]
        assert ours == []
        assert self.watched.foreign() == []


@pytest.fixture
def person(operated: Operated, opened: Opened) -> Iterator[Person]:
    somebody = Person(operated, opened)
    yield somebody
    somebody.had_no_trouble()


def test_a_loop_is_set_back_by_clicks_and_continues_there(operated: Operated, person: Person) -> None:
    run_id = operated.run("steered_loop", "failed", fails_at=7)
    person.opens("steered_loop", run_id)
    assert "7 of 10" in person.page.locator("main").inner_text()
    shown = person.previews("rewind", to="4", why="page 4 was wrong")
    assert "continues after 3 of 10 elements" in shown
    assert operated.show("loops", "steered_loop", run_id, TASK)["done"] == 7, "nothing is changed by a preview"
    assert "set back to element 4 by" in person.confirms()
    assert operated.again("steered_loop", run_id) == "success"
    assert pages(operated, run_id, 2) == [*range(3, 10)]
    assert "set back to element 4 by " in operated.log("steered_loop", run_id)
    person.page.locator(".state", has_text="done").wait_for(timeout=15_000)  # the page has followed


def test_a_restart_is_made_by_clicks_and_one_is_put_back(operated: Operated, person: Person) -> None:
    conf = {"fails_at": 5, "on_clear": "resume"}
    restarted, undone = (operated.run("steered_loop", "failed", **conf) for _ in range(2))
    for run_id in (restarted, undone):
        person.opens("steered_loop", run_id)
        assert "starts over at the first element" in person.previews("restart")
        person.confirms()
    assert "continues after 5 of 10 elements" in person.previews("undo")
    person.confirms()
    for run_id in (restarted, undone):
        assert operated.again("steered_loop", run_id) == "success"
    assert pages(operated, restarted, 2) == [*range(10)]
    assert pages(operated, undone, 2) == [*range(5, 10)]


@pytest.mark.parametrize(
    ("verb", "typed", "jobs"), [("adopt", {"id": "job-1"}, 1), ("forget", {}, 2)], ids=["adopt", "forget"]
)
def test_a_lost_submission_is_seen_to_by_clicks(
    operated: Operated, person: Person, verb: str, typed: dict[str, str], jobs: int
) -> None:
    run_id = operated.run("steered_job", "failed")
    person.opens("steered_job", run_id)
    assert "What to do: Look in the job system" in person.page.locator("main").inner_text()
    person.previews(verb, why="looked at 03:10", **typed)
    person.confirms()
    assert operated.again("steered_job", run_id) == "success"
    assert len(operated.lines(run_id, "jobs")) == jobs
    assert "looked at 03:10" in operated.log("steered_job", run_id)


def test_a_restart_is_made_with_the_keyboard_alone(operated: Operated, person: Person) -> None:
    run_id = operated.run("steered_loop", "failed", fails_at=3)
    person.opens("steered_loop", run_id)
    press = person.tab.keyboard.press

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if person.page.locator(f"{selector}:focus").count():
                return
            press("Tab")
        raise AssertionError(f"{selector} is not reached with Tab")

    person.page.locator("h1").click()
    tab_to("details.actions > summary")
    press("Enter")
    tab_to("form.restart button")
    press("Enter")
    person.page.locator("#preview").wait_for()
    person.page.locator("h1").click()
    tab_to("#confirm")
    press("Enter")
    person.page.locator("#done").wait_for()
    assert operated.again("steered_loop", run_id) == "success"
    assert pages(operated, run_id, 2) == [*range(10)]


def test_a_mark_is_found_in_the_navigation_and_set_back(operated: Operated, person: Person) -> None:
    operated.run("steered_mark", "success")
    person.tab.goto(f"{person.url}/")
    person.tab.get_by_role("button", name="Browse").click()
    person.tab.get_by_text("Watermarks").click()
    page = person.tab.frame_locator("iframe[title=Watermarks]")
    page.get_by_role("link", name="steered_orders").click()
    page.locator("details.actions > summary").click()
    page.locator("form.rewind input[name=by]").fill("6h")
    page.locator("form.rewind button").click()
    page.locator("#confirm").click()
    page.locator("#done").wait_for()
    second = operated.run("steered_mark", "success")
    assert operated.lines(second, "windows") == ["01 18 02 00"]


def test_a_run_and_a_dag_have_the_tab_too(operated: Operated, person: Person) -> None:
    run_id = operated.run("steered_loop", "failed", fails_at=2)
    for path in (f"/dags/steered_loop/runs/{quote(run_id)}", "/dags/steered_loop"):
        person.tab.goto(f"{person.url}{path}")
        person.tab.get_by_role("link", name="Resume", exact=True).click()
        person.page.get_by_role("link", name=TASK).first.click()
        person.page.locator("section.card").wait_for()
