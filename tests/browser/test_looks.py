"""What a person sees: themes, text, freshness, and that people without a mouse or without eyes can use it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.airflow.test_page import SCRIPT, hostile
from tests.browser.conftest import Watched, away, quiet
from tests.support.operating.records import JOB, LOOP, lost_job, moved_mark, stopped_loop
from tests.support.page.filled import RUN
from tests.support.page.server import PageServer, page_server
from tests.support.watermarks.whole_numbers import MARK

Opened = Callable[..., Watched]
QUERY = urlencode({"dag_id": "d", "run_id": RUN, "task_id": "load", "map_index": -1})
PAGES = {
    "task": f"task?{QUERY}",
    "run": f"run?{urlencode({'dag_id': 'd', 'run_id': RUN})}",
    "dag": "dag?dag_id=d",
    "marks": "marks",
    "mark": "marks/ASSET",
    "not there": "nothing",
}


def nested() -> dict[str, Any]:
    """A loop with loops inside it, and skipped elements."""
    return {
        **away(stopped_loop),
        "inner": {"orders": {"kind": "batches", "n": 3, "total": 9, "inner": {"lines": {"kind": "batches", "n": 1}}}},
        "skipped": 1,
        "skips": [{"pos": 3, "error": "ValueError: a bad row"}],
    }


def replaced_job() -> dict[str, Any]:
    return {
        **away(lost_job), "phase": "submitted", "id": "application_18", "status": "active", "generation": 2,
        "history": [{"generation": 1, "token": "t", "id": "application_17", "status": "failed", "try": 1,
                     "reason": "the job has failed"}],
    }  # fmt: skip


def times() -> dict[str, Any]:
    """A mark of times with a gap."""
    return {
        **away(moved_mark), "type": "datetime", "definition": {}, "at": "2026-01-02T00:00:00+00:00",
        "islands": [["2026-01-03T00:00:00+00:00", "2026-01-04T00:00:00+00:00"]],
        "history": [{"to": f"2026-01-0{day}T00:00:00+00:00", "run_id": f"r{day}"} for day in (1, 2)], "outbox": [],
    }  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with page_server(Path(tmp_path_factory.mktemp("looks"))) as running:
        filled = running.filled
        filled.dag("d")
        filled.task("d", "load", records={LOOP: nested(), JOB: replaced_job()}, link=f"{running.url}/api/v2/version")
        filled.task("d", "many", map_index=3, records={LOOP: away(stopped_loop)})
        filled.task("d", "fresh", records={LOOP: away(stopped_loop)})
        PAGES["mark"] = f"marks/{filled.asset('orders', {MARK: times()})}"
        yield running


def token(server: PageServer, who: str = "ana") -> str:
    return str(server.as_(who).cookies.get("_token"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(server: PageServer, opened: Opened, name: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed: make browser")
    watched = opened(server.url, token(server), color_scheme=scheme)
    watched.tab.goto(server.url + server.page(PAGES[name]))
    for summary in watched.tab.query_selector_all("summary"):
        summary.click()
    found = axe.Axe().run(watched.tab).response
    assert found["passes"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []


def test_axe_finds_nothing_serious_in_a_preview(server: PageServer, opened: Opened) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed: make browser")
    watched = opened(server.url, token(server))
    with quiet(watched):
        watched.tab.goto(server.url + server.page(PAGES["task"]))
        watched.tab.locator("summary").first.click()
        watched.tab.get_by_role("button", name="Preview: skip one element").click()
        watched.tab.wait_for_selector("#preview")
        found = axe.Axe().run(watched.tab).response["violations"]
        assert [each["id"] for each in found] == []


@pytest.mark.parametrize("name", [name for name in PAGES if name != "not there"])
def test_a_page_complains_of_nothing_and_asks_nobody_else(server: PageServer, opened: Opened, name: str) -> None:
    watched = opened(server.url, token(server))
    with quiet(watched):
        watched.tab.goto(server.url + server.page(PAGES[name]))
        watched.tab.wait_for_timeout(6_000)
    assert len(watched.of_page()) == 1
    assert watched.tab.locator("#stale").count() == 0


def test_a_loop_a_job_and_a_mark_are_drawn(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    watched.tab.goto(server.url + server.page(PAGES["task"]))
    assert watched.tab.locator(".bar .name").all_inner_texts() == ["l", "orders", "lines"]
    assert watched.tab.locator(".bar progress").count() == 2, "how many lines there are is not known"
    assert watched.tab.locator(".skips li").all_inner_texts() == ["3: ValueError: a bad row"]
    steps = watched.tab.locator(".steps li").all_inner_texts()
    assert "application_17" in steps[0]
    assert "replaced: the job has failed" in steps[0]
    assert "application_18" in steps[1]
    watched.tab.goto(server.url + server.page(PAGES["mark"]))
    kinds = [each.get_attribute("class") for each in watched.tab.locator("svg.bands rect").all()]
    assert kinds == ["loaded", "gap", "island", "now"]
    assert watched.tab.locator("svg.spark polyline").count() == 1
    assert "not loaded" in watched.tab.locator("p.trouble").inner_text()


def test_the_theme_is_that_of_airflow_around_it(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    watched.tab.goto(f"{server.url}/")
    backs = {}
    for theme in ("light", "dark"):
        watched.tab.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        watched.tab.goto(f"{server.url}/plugin/watermarks")
        frame = watched.tab.frame_locator("iframe[title=Watermarks]")
        frame.locator("h1").wait_for()
        backs[theme] = frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        assert frame.locator("html").get_attribute("data-theme") == theme
    assert backs == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}


def test_it_stays_fresh_and_keeps_what_was_typed(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    tab = watched.tab
    with quiet(watched):
        tab.goto(server.url + server.page(f"task?{QUERY.replace('task_id=load', 'task_id=fresh')}"))
        assert "7 of 10" in tab.locator(".bar").inner_text()
        tab.locator("summary").click()
        tab.locator("form.rewind input[name=why]").fill("page 3")
        server.filled.change("fresh", LOOP, {**server.filled.stored("fresh", LOOP), "n": 8, "pos": 8})
        tab.locator(".bar", has_text="8 of 10").wait_for(timeout=12_000)
        assert tab.locator("form.rewind input[name=why]").input_value() == "page 3"
        digest = tab.locator("section.card").get_attribute("data-digest")
        assert tab.locator("form.rewind input[name=record]").input_value() == digest
        tab.locator("form.rewind input[name=to]").fill("3")
        tab.get_by_role("button", name="Preview: rewind").click()
        assert "8 of 10 (80%)" in tab.locator("table").inner_text()


def test_a_hidden_tab_asks_nothing(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    tab = watched.tab
    tab.goto(server.url + server.page(PAGES["run"]))
    tab.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {get: () => window.isAway, configurable: true});"
        " window.isAway = true; document.dispatchEvent(new Event('visibilitychange')); }"
    )
    tab.wait_for_timeout(500)
    watched.asked.clear()
    tab.wait_for_timeout(11_000)
    assert watched.asked == []
    tab.evaluate("() => { window.isAway = false; document.dispatchEvent(new Event('visibilitychange')); }")
    tab.wait_for_timeout(1_000)
    assert len(watched.of_page()) == 1, "it looks at once when somebody is back"


def test_a_server_that_does_not_answer_is_said(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    watched.tab.goto(server.url + server.page(PAGES["run"]))
    watched.tab.route(re.compile("part=1"), lambda route: route.abort())
    watched.tab.wait_for_selector("#stale", timeout=12_000)
    watched.tab.unroute_all()
    watched.tab.wait_for_selector("#stale", state="detached", timeout=12_000)


def test_what_a_user_typed_runs_nothing(server: PageServer, opened: Opened) -> None:
    server.filled.dag("hostile")
    server.filled.task("hostile", f"t{SCRIPT}", run_id=SCRIPT, records=away(hostile), link="javascript:alert(1)")
    asset_id = server.filled.asset(SCRIPT, {MARK: {**away(moved_mark), "at": SCRIPT, "type": SCRIPT}})
    query = urlencode({"dag_id": "hostile", "run_id": SCRIPT, "task_id": f"t{SCRIPT}", "map_index": -1})
    watched = opened(server.url, token(server))
    with quiet(watched):
        for path in (f"task?{query}", f"run?{query}", "dag?dag_id=hostile", "marks", f"marks/{asset_id}"):
            watched.tab.goto(server.url + server.page(path))
            watched.tab.wait_for_timeout(5_500)
            text = watched.tab.locator("main").inner_text()
            assert SCRIPT.replace("\u202e", r"\u202e") in text, path  # it is shown as its code
            assert watched.tab.locator("main script, main img").count() == 0


def test_a_link_to_a_job_opens_a_tab_from_within_the_frame(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    watched.tab.goto(f"{server.url}/dags/d/runs/{quote(RUN)}/tasks/load/plugin/resume")
    link = watched.tab.frame_locator("iframe[title=Resume]").locator("a.out")
    with watched.tab.context.expect_page() as popped:
        link.click()
    assert popped.value.url == f"{server.url}/api/v2/version"


def test_a_mapped_task_instance_has_the_tab_too(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server))
    watched.tab.goto(f"{server.url}/dags/d/runs/{quote(RUN)}/tasks/many/mapped/3/plugin/resume")
    frame = watched.tab.frame_locator("iframe[title=Resume]")
    frame.locator("section.card").wait_for()
    assert frame.locator("h1").inner_text() == "Task many[3]"


def test_it_works_without_a_script(server: PageServer, opened: Opened) -> None:
    watched = opened(server.url, token(server), java_script_enabled=False)
    watched.tab.goto(server.url + server.page(PAGES["task"]))
    watched.tab.locator("summary").first.click()
    watched.tab.locator("form.restart button").first.click()
    assert "Nothing has been changed yet" in watched.tab.locator("#preview").inner_text()
