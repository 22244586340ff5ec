"""What the page shows of records, without a server."""

from __future__ import annotations

import ast
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.errors import UsageError
from airflow_resume.operating.kinds import KINDS
from airflow_resume.operating.places import ENVELOPE, AssetPlace, Entry, TaskPlace
from airflow_resume.operating.verbs import VERBS
from airflow_resume.page import app, views
from airflow_resume.page.advice import ADVICE, advice_for
from airflow_resume.page.drawings import bands_of, number_of, sparkline
from airflow_resume.page.forms import FORMS, UNDO, asked
from airflow_resume.watermarks.marks.mark_record import MarkRecord
from tests.support.operating.records import JOB, LOOP, lost_job, moved_mark, stopped_loop
from tests.support.watermarks.whole_numbers import MARK

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)


def entry(value: Any, key: str = LOOP, *, index: int = -1, state: str | None = "failed") -> Entry:
    place = TaskPlace(dag_id="d", run_id="r", task_id="t", map_index=index, state=state, try_number=1)
    return Entry(place=place, key=key, value=value, updated=NOW)


def mark(value: Any, key: str = MARK) -> Entry:
    return Entry(place=AssetPlace(asset_id=7, name="orders"), key=key, value=value, updated=NOW)


# --- lists ------------------------------------------------------------------------------------------------------------


def test_trouble_comes_first_and_what_is_done_last() -> None:
    loop = stopped_loop()
    done = {**loop, "done": True, "n": 10}
    running = {**loop, "ts": NOW.isoformat()}
    entries = [entry(done, index=0), entry(running, index=1, state="running"), entry(loop, index=2)]
    found = views.listed(entries, NOW)
    assert [line.where for line in found.lines] == ["t[2]", "t[1]", "t[0]"]
    assert [line.tone for line in found.lines] == ["trouble", "busy", "calm"]
    assert (found.summary.counts, found.summary.troubled) == (("3 loops",), 1)


@pytest.mark.parametrize(
    ("page", "shown", "is_page"), [(1, 100, 1), (3, 50, 3), (0, 100, 1), (99, 50, 3), (-5, 100, 1)]
)
def test_a_list_has_pages_and_the_head_tells_of_all(page: int, shown: int, is_page: int) -> None:
    loop = stopped_loop()
    found = views.listed([entry(loop, index=index) for index in range(250)], NOW, page=page)
    assert (len(found.lines), found.page, found.pages) == (shown, is_page, 3)
    assert found.summary.troubled == 250


def test_what_cannot_be_read_is_listed_and_says_why() -> None:
    reference: Any = {ENVELOPE: f"airflow-resume:1:{'a' * 32}:{'b' * 64}:{LOOP}"}
    elsewhere = Entry.made_of(entry(0).place, LOOP, reference, NOW)
    found = views.listed([entry({"v": 99, "key": LOOP}), elsewhere, entry(7)], NOW)
    assert [line.state for line in found.lines] == ["unreadable", "elsewhere", "unreadable"]
    cards = views.cards_of([entry(7), elsewhere], NOW)
    assert [card.forms for card in cards] == [(), ()], "nothing can be changed"
    assert all(card.advice for card in cards)


def test_the_names_of_dags_that_may_not_be_seen_are_left_out() -> None:
    record = moved_mark()
    record["owner"] = {"dag_id": "hidden", "task_id": "secret_task"}
    record["by"] = {**record["by"], "dag_id": "hidden", "run_id": "secret_run"}
    record["history"][-1]["run_id"] = "secret_run"
    assert views.owners_of([mark(record), mark({"owner": 7, "by": {"dag_id": 7}}), mark(7)]) == {"hidden"}
    shown = repr(views.cards_of([mark(record)], NOW, seen=frozenset()))
    assert "hidden" not in shown
    assert "secret" not in shown
    assert "secret_run" in repr(views.cards_of([mark(record)], NOW, seen=frozenset({"hidden"})))


def test_a_typed_mark_is_shown_and_not_changed() -> None:
    (card,) = views.cards_of([mark("2026-01-01")], NOW)
    assert (card.line.state, card.forms) == ("typed", ())


# --- cards ------------------------------------------------------------------------------------------------------------


def test_a_loop_in_a_loop_is_a_bar_below_a_bar() -> None:
    inner = {"orders": {"kind": "batches", "n": 3, "total": 9, "inner": {"lines": {"kind": "batches", "n": 1}}}}
    (card,) = views.cards_of([entry({**stopped_loop(), "inner": inner})], NOW)
    assert [(bar.name, bar.depth, bar.percent) for bar in card.bars] == [
        ("l", 0, 70.0), ("orders", 1, 33.3), ("lines", 2, None),
    ]  # fmt: skip


def test_each_job_of_a_slot_is_a_step_and_says_why_it_was_replaced() -> None:
    history = [{"generation": 1, "token": "t", "id": "a", "status": "failed", "try": 1, "reason": "it has failed"}]
    record = {**lost_job(), "phase": "submitted", "id": "b", "status": "active", "generation": 2, "history": history}
    found = entry(record, JOB)
    (card,) = views.cards_of([found], NOW, links={found.place: "https://j.example/b"})
    assert [(step.number, step.id, step.reason) for step in card.steps] == [(1, "a", "it has failed"), (2, "b", None)]
    assert card.link == "https://j.example/b"


def test_undo_is_offered_only_when_there_is_something_to_undo() -> None:
    by_hand = {"at": NOW.isoformat(), "who": "ana", "what": "set", "claim": "1", "before": stopped_loop()}
    cards = views.cards_of([entry(stopped_loop()), entry({**stopped_loop(), "by_hand": by_hand})], NOW)
    assert [UNDO in card.forms for card in cards] == [False, True]


def test_the_digest_and_the_element_of_a_record_stay_the_same_in_another_process() -> None:
    one, other = (views.cards_of([entry(stopped_loop() | {"t0": "2026-01-01T00:00:00Z"})], NOW)[0] for _ in range(2))
    assert (one.id, one.id[:7]) == (other.id, "record-")


@pytest.mark.parametrize(("noun", "state"), ADVICE)
def test_there_is_advice_only_for_what_is_in_trouble(noun: str, state: str) -> None:
    assert advice_for(noun or "loop", state, None) is None
    assert advice_for(noun or "loop", state, "it is so") == ADVICE[noun, state]


def test_who_may_only_look_gets_no_forms_and_is_told_why() -> None:
    cards = views.cards_of([entry(stopped_loop()), entry(7)], NOW, may_change=False)
    assert [card.forms for card in cards] == [(), ()]
    assert cards[0].denied is not None
    assert "the right to edit task instances" in cards[0].denied
    assert cards[1].denied is None, "nobody can change it"
    assert "the right to edit assets" in str(views.cards_of([mark(moved_mark())], NOW, may_change=False)[0].denied)


PACKAGE = Path(app.__file__).parents[1]
SHOWN = [
    *(PACKAGE / "page").glob("*.py"),
    *(PACKAGE / "operating" / f"{name}.py" for name in (
        "changes", "job_changes", "loop_changes", "mark_changes", "verbs", "steering", "kinds", "rows", "job_rows",
        "loop_rows", "mark_rows",
    )),
]  # fmt: skip
OF_THE_COMMAND_LINE = {"Say which with --name."}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.stem)
def test_no_text_of_the_page_names_an_option_of_the_command_line(path: Path) -> None:
    tree = [*ast.walk(ast.parse(path.read_text()))]
    docs = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    texts = [node.value for node in tree if isinstance(node, ast.Constant) and id(node) not in docs]
    named = [text for text in texts if isinstance(text, str) and re.search(r"(^|[ (])--[a-z]", text)]
    assert [text for text in named if text not in OF_THE_COMMAND_LINE] == []


# --- drawings ---------------------------------------------------------------------------------------------------------


def of_times(**more: Any) -> MarkRecord:
    record = moved_mark()
    days = {"type": "datetime", "definition": {}, "at": "2026-01-02T00:00:00+00:00", "history": [], "outbox": []}
    return MarkRecord.model_validate({k: v for k, v in (record | days | more).items() if k != "summary"})


def test_a_mark_with_a_gap_is_drawn_on_a_line_of_time() -> None:
    islands = [["2026-01-03T00:00:00+00:00", "2026-01-04T00:00:00+00:00"]]
    bands = bands_of(of_times(islands=islands), NOW)
    assert [band.kind for band in bands] == ["loaded", "gap", "island", "now"]
    loaded, gap, island, now = bands
    assert loaded.start + loaded.width == pytest.approx(gap.start, abs=1)
    assert gap.start + gap.width == pytest.approx(island.start, abs=0.1)
    assert island.width == pytest.approx(gap.width, abs=0.1)
    assert island.start + island.width < now.start
    assert all(band.start >= 0 and band.start + band.width <= 100 for band in bands)


def test_a_mark_that_is_neither_a_time_nor_a_number_has_no_line() -> None:
    assert bands_of(of_times(at="abc", type="text"), NOW) == ()
    assert bands_of(of_times(at=["a", 1]), NOW) == ()


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7.0), ("7", 7.0), (-2.5, -2.5), (True, None), (None, None), ("x", None), ([3, "a"], 3.0), ([], None),
        ("1970-01-02", 86_400.0), ("1970-01-02T00:00:00Z", 86_400.0), ("2026-99-99", None), ({"a": 1}, None),
    ],
)  # fmt: skip
def test_a_value_has_a_place_on_a_line_or_none(value: Any, number: float | None) -> None:
    assert number_of(value) == number


def test_a_line_through_the_last_moves() -> None:
    assert sparkline([0, 10, 5]) == "0.0,100.0 50.0,0.0 100.0,50.0"
    assert sparkline([1, 1]) == "0.0,100.0 100.0,100.0"
    assert sparkline([1]) is None
    assert sparkline([1, "x"]) is None


# --- forms ------------------------------------------------------------------------------------------------------------


def test_the_page_asks_for_all_that_the_command_line_does() -> None:
    assert {noun: {form.verb for form in (*forms, UNDO)} for noun, forms in FORMS.items()} == {
        noun: set(verbs) for noun, verbs in VERBS.items()
    }
    assert set(FORMS) == set(KINDS)


def test_what_was_typed_is_read_as_the_command_line_reads_it() -> None:
    sent = {"verb": "rewind", "to": " 150 ", "why": " late ", "key": LOOP, "record": "d", "token": "t", "x": "y"}
    ask = asked("loops", sent)
    assert (ask.given, ask.typed, ask.why) == ({"to": 150, "position": None, "done": None}, {"to": "150"}, "late")
    assert asked("jobs", {"verb": "adopt", "id": "7", "as_json": "yes"}).given == {"id": "7", "as_json": True}


@pytest.mark.parametrize(
    ("noun", "sent"),
    [
        ("loops", {"verb": "rewind", "to": "1", "position": "7"}),
        ("loops", {"verb": "rewind", "to": "1", "done": "1"}),
        ("marks", {"verb": "rewind", "by": "3d", "to": "1"}),
        ("loops", {"verb": "adopt"}), ("loops", {}), ("jobs", {"verb": "adopt", "id": "  "}),
        ("loops", {"verb": "rewind", "to": "-1"}), ("loops", {"verb": "rewind", "to": "\u0663"}),
        ("marks", {"verb": "rewind"}), ("marks", {"verb": "set", "to": ""}),
    ],
)  # fmt: skip
def test_what_is_missing_or_cannot_be_read_is_said(noun: str, sent: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        asked(noun, sent)


def test_what_cannot_be_seen_or_turns_the_text_around_is_escaped() -> None:
    made = app.templates().from_string("<p title='{{ text }}'>{{ text }}</p>{{ number }}")
    assert made.render(text="z\u202eevil\x1b<b>", number=7) == (
        "<p title='z\\u202eevil\\x1b&lt;b&gt;'>z\\u202eevil\\x1b&lt;b&gt;</p>7"
    )


def test_ages_are_counted_from_now() -> None:
    loop = stopped_loop() | {"ts": (NOW - timedelta(hours=2)).isoformat()}
    assert "saved 2 h ago" in views.listed([entry(loop)], NOW).lines[0].facts
