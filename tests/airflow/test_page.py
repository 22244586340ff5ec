"""The page on a real API server: who sees and changes what, that text stays text, and what a change does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.support.backends.databases import database_on_postgresql
from tests.support.operating.records import JOB, LOOP, lost_job, moved_mark, stopped_loop
from tests.support.page.filled import RUN
from tests.support.page.person import Changing, form, task_query
from tests.support.page.server import PageServer, page_server
from tests.support.watermarks.whole_numbers import MARK

HIDDEN = "hidden_dag"
"""The Dag that `uma` may not see, with the asset of the id 1."""
SCRIPT = '"><script>alert(1)</script>\u202e{{ 7*7 }}'
NEVER = ("<script>alert", '"><script')
ROUTES = {
    ("GET", "/task"), ("GET", "/run"), ("GET", "/dag"), ("GET", "/marks"), ("GET", "/marks/{asset_id}"),
    ("GET", "/static/{name}"), ("POST", "/task/preview"), ("POST", "/task/change"),
    ("POST", "/marks/{asset_id}/preview"), ("POST", "/marks/{asset_id}/change"),
}  # fmt: skip
_ROUTES = """
import json
from airflow_resume.page.app import create_app
print("ROUTES", json.dumps([[method, route.path] for route in create_app().routes for method in route.methods]))
"""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[PageServer]:
    with ExitStack() as stack:
        database = None if request.param == "sqlite" else stack.enter_context(database_on_postgresql())
        running = stack.enter_context(page_server(Path(tmp_path_factory.mktemp("page")), database=database))
        filled = running.filled
        assert filled.asset("hidden_asset", {MARK: moved_mark()}) == 1
        for dag_id in ("d", HIDDEN):
            filled.dag(dag_id)
            filled.task(dag_id, f"{dag_id}_load", records={LOOP: stopped_loop(), JOB: lost_job()})
        owned = moved_mark()
        owned["owner"] = {"dag_id": HIDDEN, "task_id": "hidden_task"}
        owned["by"] = {**owned["by"], "dag_id": HIDDEN, "run_id": "hidden_run"}
        owned["history"][-1]["run_id"] = "hidden_run"
        filled.asset("of_a_hidden_dag", {MARK: owned})
        yield running


def task(dag_id: str, task_id: str, map_index: int = -1, run_id: str = RUN) -> str:
    return task_query(dag_id, task_id, map_index, run_id=run_id)


@pytest.fixture
def loop(server: PageServer, request: pytest.FixtureRequest) -> Changing:
    name = re.sub(r"\W", "_", request.node.name)
    server.filled.task("d", name, run_id=name, records={LOOP: stopped_loop(), JOB: lost_job()})
    return Changing(server, "ana", "task", task("d", name, run_id=name))


def name_of(changing: Changing) -> str:
    assert changing.query is not None
    return dict(part.split("=") for part in changing.query.split("&"))["task_id"]


# --- every route ------------------------------------------------------------------------------------------------------


def test_every_route_is_listed_here(tmp_path: Path) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", _ROUTES], env=environment, check=True, capture_output=True, text=True)
    line = next(line for line in said.stdout.splitlines() if line.startswith("ROUTES "))
    found = {(method, path) for method, path in json.loads(line.removeprefix("ROUTES "))}
    assert found == ROUTES


def asked(server: PageServer, who: str | None, method: str, path: str) -> httpx.Response:
    """A route as somebody would ask it for what is hidden from `uma`."""
    address = server.page(path[1:].replace("{asset_id}", "1").replace("{name}", "resume.css"))
    if path.startswith(("/task", "/run", "/dag")):
        address += f"?{task(HIDDEN, f'{HIDDEN}_load')}"
    fields = {"verb": "restart", "key": LOOP, "record": "", "token": "x"}
    return server.as_(who).request(method, address, data=fields if method == "POST" else None)


@pytest.mark.parametrize("who", [None, "nob", "uma"])
@pytest.mark.parametrize(("method", "path"), sorted(ROUTES))
def test_who_may_not_see_a_dag_gets_nothing_of_it_on_any_route(
    server: PageServer, who: str | None, method: str, path: str
) -> None:
    answer = asked(server, who, method, path)
    if who is not None and path.startswith("/static"):
        assert answer.status_code == 200  # the same for everybody who is logged in
        return
    if who == "uma" and path == "/marks":
        assert answer.status_code == 200
        assert "of_a_hidden_dag" in answer.text
        assert "hidden_asset" not in answer.text
    else:
        assert answer.status_code == (401 if who is None else 403), answer.text
        assert answer.text.count("<section") == answer.text.count("<table") == 0
    for word in ("hidden_dag_load", "hidden_task", "hidden_run", "stopped", "lost"):
        assert word not in answer.text


@pytest.mark.parametrize(("method", "path"), sorted(ROUTES))
def test_every_answer_has_the_headers_that_keep_a_browser_from_doing_more(
    server: PageServer, method: str, path: str
) -> None:
    for who in (None, "ana"):
        headers = asked(server, who, method, path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'self'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("number", [2**31, 2**63 - 1, 10**39, -1])
def test_a_number_that_no_asset_can_have_is_no_asset(server: PageServer, number: int) -> None:
    assert server.as_("ana").get(server.page(f"marks/{number}")).status_code in {400, 404, 422}


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json", "", "static/../app.py", "static/nothing.css"])
def test_there_is_nothing_else(server: PageServer, path: str) -> None:
    assert server.as_("ana").get(server.page(path)).status_code == 404


@pytest.mark.parametrize("who", ["vic", "nob", None])
def test_who_may_only_look_changes_nothing(server: PageServer, loop: Changing, who: str | None) -> None:
    fields = form(loop.look(), "restart")
    for end in ("/preview", "/change"):
        answer = server.as_(who).post(loop.address(end), data=fields)
        assert answer.status_code == (401 if who is None else 403)
    assert "by_hand" not in server.filled.stored(name_of(loop), LOOP)


def test_a_viewer_sees_a_loop_and_no_form_that_would_be_refused(server: PageServer) -> None:
    for path, noun, right in (
        (f"task?{task('d', 'd_load')}", "loop", "task instances of this Dag"),
        ("marks/1", "mark", "assets"),
    ):
        answer = server.as_("vic").get(server.page(path))
        assert answer.status_code == 200
        assert "<form" not in answer.text
        assert f"look at this {noun}, and not change it: that needs the right to edit {right}" in answer.text
        own = server.as_("ana").get(server.page(path)).text
        assert "<form" in own
        assert "and not change it" not in own
    assert "7 of 10" in server.as_("vic").get(server.page(f"task?{task('d', 'd_load')}")).text


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("dag?dag_id=nothing", "There is no Dag nothing."),
        (f"run?{task('d', 'x', run_id='nothing')}", "There is no run nothing of the Dag d."),
        (f"task?{task('d', 'nothing')}", f"There is no task nothing in the run {RUN} of the Dag d."),
        ("marks/999", "There is no asset with the number 999."),
        ("nothing", "There is no such page."),
    ],
)
def test_what_is_not_there_is_said(server: PageServer, path: str, says: str) -> None:
    answer = server.as_("ana").get(server.page(path))
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text
    assert says in unescape(answer.text)


def test_what_is_there_without_a_record_is_an_empty_page(server: PageServer) -> None:
    server.filled.dag("bare")
    server.filled.task("bare", "t", records={})
    number = server.filled.asset("bare", {})
    for path in ("dag?dag_id=bare", f"run?{task('bare', 't')}", f"task?{task('bare', 't')}", f"marks/{number}"):
        answer = server.as_("ana").get(server.page(path))
        assert answer.status_code == 200
        assert 'id="empty"' in answer.text
    assert "<h1>Asset bare</h1>" in server.as_("ana").get(server.page(f"marks/{number}")).text


def test_a_refusal_has_a_heading_of_its_own(server: PageServer, loop: Changing) -> None:
    fields = form(loop.look(), "restart")
    for who, path, heading in (
        (None, "marks", "Not logged in"),
        ("uma", f"dag?dag_id={HIDDEN}", "Not allowed"),
        ("ana", "task?dag_id=d", "This page cannot be shown"),
    ):
        assert f"<h1>{heading}</h1>" in server.as_(who).get(server.page(path)).text
    for who, sent in (("vic", fields), ("ana", {**fields, "token": "x"}), ("ana", {**fields, "record": "moved"})):
        answer = server.as_(who).post(loop.address("/change"), data=sent)
        assert "<h1>Nothing was changed</h1>" in answer.text


def test_a_refusal_says_what_to_do_on_the_page_and_names_no_option(server: PageServer, loop: Changing) -> None:
    skipped = loop.confirm(loop.preview("skip")).text
    assert "type the name that is asked for" in skipped
    done = form(loop.look(), "rewind")
    refused = [
        skipped,
        *(
            server.as_("ana").post(loop.address("/preview"), data={**done, **typed}).text
            for typed in ({"position": "[1]"}, {"position": "{"}, {"to": "99"}, {"position": '{"a": 1}', "done": "1"})
        ),
    ]
    for text in refused:
        assert 'role="alert"' in text
        assert not re.findall(r"(?<!<!)--[a-z]|`", text)


def test_a_mark_of_a_hidden_dag_names_no_dag(server: PageServer) -> None:
    for who, is_named in (("ana", True), ("uma", False)):
        text = server.as_(who).get(server.page("marks/4")).text
        assert "of_a_hidden_dag" in text
        assert ("hidden_run" in text) is is_named
        assert ("hidden_task" in text) is is_named


@pytest.mark.parametrize("dag_id", ["~", "", "d&dag_id=~", "%", "*"])
def test_a_wildcard_is_no_dag(server: PageServer, dag_id: str) -> None:
    answer = server.as_("uma").get(f"{server.page('dag')}?dag_id={dag_id}")
    assert "hidden_dag_load" not in answer.text
    assert "d_load" not in answer.text


def test_two_dags_in_one_address_are_not_one_to_check_and_one_to_show(server: PageServer) -> None:
    for query in (f"dag_id=d&dag_id={HIDDEN}", f"dag_id={HIDDEN}&dag_id=d"):
        assert "hidden_dag_load" not in server.as_("uma").get(f"{server.page('dag')}?{query}").text


# --- text is text -----------------------------------------------------------------------------------------------------


def hostile() -> dict[str, Any]:
    loop_record = stopped_loop()
    name = 'resume.loop.<img src=x onerror="alert(1)">'
    loop_record |= {
        "key": name, "pos": SCRIPT, "kind": SCRIPT, "summary": SCRIPT,
        "skipped": 1, "skips": [{"pos": SCRIPT, "error": SCRIPT}],
        "inner": {SCRIPT: {"kind": "x", "n": 1}},
        "by_hand": {"at": "2026-01-01T00:00:00Z", "who": SCRIPT, "what": SCRIPT, "why": SCRIPT, "claim": "1"},
    }  # fmt: skip
    job = lost_job()
    job |= {"phase": "submitted", "id": SCRIPT, "status": "active", "history": [
        {"generation": 1, "token": "t", "id": SCRIPT, "try": 1, "reason": SCRIPT}], "generation": 2}  # fmt: skip
    return {name: loop_record, JOB: job, "resume.loop.bad": {"v": 1, "key": SCRIPT}, "resume.job.odd": SCRIPT}


def test_what_a_user_typed_is_text_everywhere(server: PageServer) -> None:
    dag_id, task_id, run_id = f"d<i>{SCRIPT}", f"t{SCRIPT}", f"r{SCRIPT}"
    server.filled.dag(dag_id)
    records = hostile()
    server.filled.task(dag_id, task_id, run_id=run_id, records=records, link="javascript:alert(1)")
    asset_id = server.filled.asset(SCRIPT, {MARK: {**moved_mark(), "at": SCRIPT, "type": SCRIPT}})
    query = task(dag_id, task_id, run_id=run_id)
    texts = [
        server.as_("ana").get(server.page(path)).text
        for path in (
            f"task?{query}",
            f"run?{query}",
            f"dag?{query}",
            "marks",
            f"marks/{asset_id}",
            f"task?{query}&part=1",
        )
    ]
    texts.append(server.as_("ana").get(server.page(f"task?{urlencode({'dag_id': SCRIPT})}")).text)
    for text in texts:
        assert "javascript:" not in text
        assert 'onerror="' not in text
        assert not any(bad in text for bad in NEVER), text
        assert "49" not in re.sub(r"[0-9a-f]{6,}", "", text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in texts[0]
    changing = Changing(server, "ana", "task", query)
    shown = changing.preview("restart", why=SCRIPT)
    assert shown.status_code == 200, shown.text
    assert not any(bad in shown.text for bad in NEVER)
    assert SCRIPT not in shown.text


def test_only_an_address_of_the_web_becomes_a_link(server: PageServer) -> None:
    links = {
        "js": "javascript:alert(1)",
        "data": "data:text/html,x",
        "file": "file:///etc",
        "https": "https://ana:s3cret@j.example/1?token=s3cret",
    }
    for task_id, link in links.items():
        job = {**lost_job(), "phase": "submitted", "id": "job-1", "status": "active"}
        server.filled.task("d", f"link_{task_id}", records={JOB: job}, link=link)
        text = server.as_("ana").get(server.page(f"task?{task('d', f'link_{task_id}')}")).text
        assert ('href="https://j.example/1"' in text) is (task_id == "https")
        assert link not in text
        assert "s3cret" not in text


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_loop_is_set_back_after_a_preview_and_put_back(server: PageServer, loop: Changing) -> None:
    before = server.filled.stored(name_of(loop), LOOP)
    shown = loop.preview("rewind", to="3", why="page 3 was wrong")
    assert "Nothing has been changed yet" in shown.text
    assert "7 of 10 (70%)" in shown.text
    assert "2 of 10 (20%)" in shown.text
    assert "continues after 2 of 10 elements" in shown.text
    assert server.filled.stored(name_of(loop), LOOP) == before
    done = loop.confirm(shown)
    assert done.status_code == 303
    record = server.filled.stored(name_of(loop), LOOP)
    assert (record["n"], record["by_hand"]["who"], record["by_hand"]["why"]) == (2, "ana", "page 3 was wrong")
    assert record["by_hand"]["before"] == before
    text = server.as_("ana").get(str(done.next_request.url) if done.next_request else "").text
    assert "Rewind: done" in text
    assert "set back to element 3 by ana" in text
    assert loop.confirm(loop.preview("undo")).status_code == 303
    assert server.filled.stored(name_of(loop), LOOP) == before
    events = [(event, owner) for event, owner, _, task_id, _ in server.filled.audit() if task_id == name_of(loop)]
    assert events == [("resume.rewind", "ana"), ("resume.undo", "ana")]


CHANGES: Mapping[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "restart": (LOOP, {}, {"start_over": True}),
    "resume": (LOOP, {}, {"what": "set to continue after 7 elements"}),
    "adopt": (JOB, {"id": "job-9"}, {"what": 'adopted "job-9"'}),
    "forget": (JOB, {}, {"what": "forgotten"}),
}


@pytest.mark.parametrize("verb", CHANGES)
def test_each_change_is_made_after_its_preview(server: PageServer, loop: Changing, verb: str) -> None:
    key, typed, expected = CHANGES[verb]
    shown = loop.preview(verb, **typed)
    assert shown.status_code == 200, shown.text
    assert loop.confirm(shown).status_code == 303
    by_hand = server.filled.stored(name_of(loop), key)["by_hand"]
    assert {name: by_hand[name] for name in expected} == expected


def test_a_change_that_skips_something_needs_the_name_of_the_task(server: PageServer, loop: Changing) -> None:
    shown = loop.preview("skip")
    assert "element 8 is not delivered" in shown.text
    for force in ("", "yes", "force", name_of(loop).upper()):
        refused = loop.confirm(shown, force=force)
        assert refused.status_code == 409
        assert "element 8 is not delivered" in refused.text
    assert loop.confirm(shown, force=name_of(loop)).status_code == 303
    assert server.filled.stored(name_of(loop), LOOP)["n"] == 8


@pytest.mark.parametrize("state", ["running", "deferred", "queued", None])
def test_a_record_of_a_task_at_work_is_changed_only_by_name(
    server: PageServer, loop: Changing, state: str | None
) -> None:
    server.filled.state(name_of(loop), state)
    shown = loop.preview("restart")
    assert "It would be refused" in shown.text
    assert loop.confirm(shown).status_code == 409
    assert "by_hand" not in server.filled.stored(name_of(loop), LOOP)
    assert loop.confirm(shown, force=name_of(loop)).status_code == 303


def test_a_task_that_starts_after_the_preview_is_noticed(server: PageServer, loop: Changing) -> None:
    shown = loop.preview("restart")
    assert "It would be refused" not in shown.text
    server.filled.state(name_of(loop), "running")
    assert loop.confirm(shown).status_code == 409
    assert "by_hand" not in server.filled.stored(name_of(loop), LOOP)


def test_a_record_that_moved_after_it_was_shown_is_not_changed(server: PageServer, loop: Changing) -> None:
    one, other = loop.preview("rewind", to="3"), loop.preview("restart")
    assert loop.confirm(one).status_code == 303
    refused = loop.confirm(other)
    assert refused.status_code == 409
    assert "has moved since it was shown" in refused.text
    assert server.filled.stored(name_of(loop), LOOP)["n"] == 2


def test_of_many_changes_at_once_one_is_made(server: PageServer, loop: Changing) -> None:
    previews = [loop.preview("rewind", to=str(number)) for number in range(1, 8)]
    with ThreadPoolExecutor(8) as pool:
        answers = [answer.status_code for answer in pool.map(loop.confirm, previews)]
    assert sorted(answers) == [303, *[409] * 6]
    made = answers.index(303)
    assert server.filled.stored(name_of(loop), LOOP)["n"] == made


@pytest.mark.parametrize(
    ("verb", "typed", "said"),
    [
        ("rewind", {"to": "9"}, "no earlier one"),
        ("rewind", {"to": "x"}, "is no number"),
        ("rewind", {"to": "9" * 30}, "is no number"),
        ("rewind", {"position": "{"}, "is not JSON"),
        ("rewind", {"position": "[" * 20_000}, "is not JSON"),
        ("rewind", {}, "how many elements"),
        ("adopt", {}, "this is missing"),
        ("adopt", {"id": "{", "as_json": "yes"}, "is not JSON"),
    ],
)
def test_what_cannot_be_read_or_done_is_said(loop: Changing, verb: str, typed: dict[str, str], said: str) -> None:
    shown = loop.preview(verb, **typed)
    assert shown.status_code in {400, 409}
    assert said in shown.text


def test_a_mark_is_set_back_and_put_back(server: PageServer) -> None:
    asset_id = server.filled.asset("orders", {MARK: moved_mark()})
    before = server.filled.stored_mark(asset_id, MARK)
    changing = Changing(server, "olaf", f"marks/{asset_id}", None)
    shown = changing.preview("rewind", by="10")
    assert shown.status_code == 200, shown.text
    assert changing.confirm(shown).status_code == 303
    assert server.filled.stored_mark(asset_id, MARK)["at"] == "20"
    assert changing.confirm(changing.preview("undo")).status_code == 303
    assert server.filled.stored_mark(asset_id, MARK)["at"] == before["at"]
    refused = changing.confirm(shown_set := changing.preview("set", to="99"))
    assert refused.status_code == 409
    assert changing.confirm(shown_set, force="orders").status_code == 303


# --- forgery ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "https://other.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Origin": "OURS"}, 303),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://name.at.the.proxy"}, 303),
    ],
)
def test_only_a_form_of_this_site_is_taken(
    server: PageServer, loop: Changing, headers: dict[str, str], status: int
) -> None:
    fields = form(loop.preview("restart").text, "confirm")
    sent = {name: value.replace("OURS", server.url) for name, value in headers.items()}
    cookies = dict(server.as_("ana").cookies)
    with httpx.Client(base_url=server.url, cookies=cookies, trust_env=False, headers=sent) as bare:
        assert bare.post(loop.address("/change"), data=fields).status_code == status
    assert ("by_hand" in server.filled.stored(name_of(loop), LOOP)) is (status == 303)


def test_the_token_of_somebody_else_or_of_nobody_is_refused(server: PageServer, loop: Changing) -> None:
    shown = loop.preview("restart")
    other = form(server.as_("olaf").get(loop.address()).text, "restart")["token"]
    for token in (other, "", "x", other[:-1]):
        assert loop.confirm(shown, token=token).status_code == 403
    assert "by_hand" not in server.filled.stored(name_of(loop), LOOP)


def test_a_form_that_is_too_large_is_refused(server: PageServer, loop: Changing) -> None:
    for fields in ({"why": "x" * 100_000}, {f"f{number}": "x" for number in range(100)}):
        assert server.as_("ana").post(loop.address("/change"), data=fields).status_code == 413


@pytest.mark.parametrize("key", ["other", "resume.window.x", "resume.loop.nothing", MARK, ""])
def test_only_records_of_the_page_are_changed(server: PageServer, loop: Changing, key: str) -> None:
    fields = form(loop.look(), "restart") | {"key": key}
    assert server.as_("ana").post(loop.address("/preview"), data=fields).status_code in {400, 404}
