"""What a record says at a given time, as tables."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume.errors import UnreadableRecordError
from airflow_resume.jobs.record import JobRecord
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.operating.job_rows import after_a_clear as job_after_a_clear
from airflow_resume.operating.job_rows import after_a_retry as job_after_a_retry
from airflow_resume.operating.job_rows import job_row
from airflow_resume.operating.loop_rows import after_a_clear, after_a_retry, loop_row, pace_in_words
from airflow_resume.operating.mark_rows import lag_of, mark_row, names_of, next_run
from airflow_resume.operating.places import AssetPlace, Entry, TaskPlace
from airflow_resume.operating.rows import decoded, in_words
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.marks.mark_record import MarkRecord

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LOOP, JOB, MARK = "resume.loop.orders", "resume.job.job", "resume.watermark.watermark"
EPOCH = {"max_tries": 3, "clear_number": 0}


def before(**units: float) -> str:
    return (NOW - timedelta(**units)).isoformat()


def loop(state: str | None = "running", **fields: Any) -> Entry:
    value = {
        "v": 1, "key": LOOP, "kind": "page_number", "fp": {}, "pos": {"page": 183, "rows": 18200}, "n": 182,
        "total": 400, "at": {"try": 2, "epoch": EPOCH}, "t0": before(hours=1), "ts": before(seconds=5), "rate": 2.0,
        "eta": (NOW + timedelta(seconds=109)).isoformat(), **fields,
    }  # fmt: skip
    place = TaskPlace(dag_id="d", run_id="r", task_id="t", state=state, try_number=2)
    return Entry(place=place, key=LOOP, value={k: v for k, v in value.items() if v is not None}, updated=NOW)


LOOPS: dict[str, tuple[Entry, str, str | None]] = {
    "it runs": (loop(), "running", None),
    "nothing was saved for long": (loop(ts=before(minutes=3)), "stalled", "nothing was saved for 3 m, at 2/s before"),
    "a slow loop may be silent for longer": (loop(ts=before(minutes=3), rate=0.1), "running", None),
    "a loop without a pace may be silent for ten minutes": (loop(ts=before(minutes=9), rate=None), "running", None),
    "and no longer": (loop(ts=before(minutes=11), rate=None), "stalled", "nothing was saved for 11 m"),
    "its task waits for its retry": (loop("up_for_retry", ts=before(hours=2)), "between tries", None),
    "its task was cleared": (loop(None, ts=before(hours=2)), "between tries", None),
    "its task failed": (loop("failed", ts=before(hours=2)), "stopped", "the task is over, and the loop is not done"),
    "it is done": (loop("success", done=True, n=400, ts=before(days=2)), "done", None),
    "it is done, and its task runs on": (loop(done=True, n=400, ts=before(days=2)), "done", None),
    "its source ended early": (
        loop("success", done=True, n=390, total=400, short="390 of 400 pages"),
        "done",
        "the source ended early: 390 of 400 pages",
    ),
    "attempts died there": (
        loop("up_for_retry", at={"try": 3, "epoch": EPOCH, "stalls": 2}),
        "between tries",
        "2 attempts died at this position without an error",
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_loops(case: str) -> None:
    entry, state, trouble = LOOPS[case]
    row = loop_row(entry, NOW)
    print(f"{case:50} -> {row.state}: {row.trouble}")
    assert (row.state, row.trouble) == (state, trouble)


def test_a_loop_has_its_share_pace_and_skips() -> None:
    row = loop_row(
        loop(skipped=1, skips=[{"pos": 7, "error": "ValueError: bad"}], inner={"items": {"kind": "batches", "n": 3}}),
        NOW,
    )
    assert (row.name, row.done, row.total, row.share) == ("orders", 182, 400, 0.455)
    assert pace_in_words(row, NOW) == "2/s, done in 1 m 49 s"
    assert row.skips == ("7: ValueError: bad",)
    assert row.inner == ("items: 3 done",)
    assert loop_row(loop("failed"), NOW).rate is None


def test_a_time_of_the_end_that_has_passed_is_worked_out_again() -> None:
    row = loop_row(loop(eta=before(minutes=1)), NOW)
    assert row.eta == NOW + timedelta(seconds=109)


@pytest.mark.parametrize(
    ("entry", "retry", "clear"),
    [
        (loop(), "continues after 182 of 400 elements", "starts over at the first element; with"),
        (loop(done=True, n=400), "delivers nothing, as the loop is done", "starts over at the first element; with"),
        (loop(n=0, pos=None, rate=None, eta=None), "begins at the first element", "starts over at the first"),
        (
            loop(by_hand={"at": before(hours=1), "who": "ana", "what": "set back", "claim": "1"}),
            "continues after 182 of 400",
            "the same, as it was set by hand (set back by ana at 2026-01-01 11:00 UTC)",
        ),
        (
            loop(
                by_hand={
                    "at": before(hours=1),
                    "who": "ana",
                    "what": "set to start over",
                    "claim": "1",
                    "start_over": True,
                }
            ),
            "starts over at the first element",
            "the same",
        ),
        (
            loop(by_hand={"at": before(hours=1), "who": "ana", "what": "set back", "claim": "1", "used": True}),
            "continues after 182",
            "starts over",
        ),
    ],
)
def test_what_the_next_attempt_of_a_loop_does(entry: Entry, retry: str, clear: str) -> None:
    record = decoded(entry, LoopRecord)
    assert after_a_retry(record).startswith(retry)
    assert after_a_clear(record).startswith(clear)


# --- jobs -------------------------------------------------------------------------------------------------------------


def job(state: str | None = "running", **fields: Any) -> Entry:
    value = {
        "v": 1, "key": JOB, "epoch": EPOCH, "generation": 2, "token": "f" * 32, "phase": "submitted", "id": "app-7",
        "status": "active", "submitted_at": before(hours=1), "claim": {"try": 2, "at": before(minutes=30)},
        "history": [{"generation": 1, "token": "e" * 32, "id": "app-3", "try": 1, "reason": "ended without success"}],
        **fields,
    }  # fmt: skip
    place = TaskPlace(dag_id="d", run_id="r", task_id="t", map_index=3, state=state, try_number=2)
    return Entry(place=place, key=JOB, value={k: v for k, v in value.items() if v is not None}, updated=NOW)


NO_ID: dict[str, Any] = {"id": None, "status": None, "submitted_at": None}
WAITING = {"try": 2, "since": before(hours=1)}
JOBS: dict[str, tuple[Entry, str, str | None]] = {
    "it runs": (job(), "active", None),
    "it was never asked about": (job(status=None), "active", None),
    "the task is deferred": (job("deferred"), "active", None),
    "it is being cancelled": (job(status="cancelling"), "cancelling", None),
    "its status is not known": (
        job(status="unknown", waiting={**WAITING, "unknown_since": before(hours=2)}),
        "unknown",
        "the job system has not known its status for 2 h",
    ),
    "nobody answers": (
        job(waiting={**WAITING, "unanswered": 4}),
        "active",
        "the job system did not answer 4 times in a row",
    ),
    "it is of another run": (job(stray=True), "active", "it is not of this run, and has to end first"),
    "its task failed": (job("failed"), "left alone", "the task is over, and nobody waits for the job"),
    "its task was marked as a success": (
        job("success"),
        "left alone",
        "the task is over, and nobody waits for the job",
    ),
    "its task waits for its retry": (job("up_for_retry"), "between tries", None),
    "it is being submitted": (
        job(phase="intent", claim={"try": 2, "at": before(seconds=20)}, **NO_ID),
        "submitting",
        None,
    ),
    "the submit hangs": (job(phase="intent", **NO_ID), "submitting", "the submit takes 30 m"),
    "the submission was lost": (
        job("failed", phase="intent", **NO_ID),
        "lost",
        "its id was not saved: a job may run, look in the job system, then adopt or forget it",
    ),
    "the submission was lost, and a retry follows": (
        job("up_for_retry", phase="intent", **NO_ID),
        "lost",
        "its id was not saved: the next try looks it up if the job system can, and fails otherwise",
    ),
    "it has succeeded": (job("success", phase="terminal", status="succeeded"), "succeeded", None),
    "it has failed": (job("failed", phase="terminal", status="failed"), "failed", None),
    "it was forgotten": (job("failed", phase="terminal", **NO_ID), "no job", None),
}


@pytest.mark.parametrize("case", JOBS)
def test_jobs(case: str) -> None:
    entry, state, trouble = JOBS[case]
    row = job_row(entry, NOW)
    print(f"{case:50} -> {row.state}: {row.trouble}")
    assert (row.state, row.trouble) == (state, trouble)


def test_a_job_says_why_the_ones_before_it_were_replaced() -> None:
    row = job_row(job(), NOW)
    assert (row.id, row.generation, row.try_number, str(row.place)) == ("app-7", 2, 2, "d r t[3]")
    assert row.replaced == ("1: app-3 ended without success",)


@pytest.mark.parametrize(
    ("case", "retry", "clear"),
    [
        ("it runs", "asks for the status of app-7", "ends app-7 first, and then submits a new job"),
        ("the submission was lost", "looks for the job by its token", "as a retry, and a job that is found is ended"),
        ("it has succeeded", "submits nothing, and returns the result of app-7", "submits a new job"),
        ("it has failed", "asks once more for app-7", "submits a new job"),
        ("it was forgotten", "submits a new job", "submits a new job"),
    ],
)
def test_what_the_next_attempt_of_a_job_does(case: str, retry: str, clear: str) -> None:
    record = decoded(JOBS[case][0], JobRecord)
    assert job_after_a_retry(record).startswith(retry)
    assert job_after_a_clear(record).startswith(clear)


# --- marks ------------------------------------------------------------------------------------------------------------


def mark(value: Any = None, **fields: Any) -> Entry:
    record = {
        "v": 1, "key": MARK, "type": "datetime", "at": "2025-12-29T12:00:00+00:00", "rev": 4, "epoch": "abc",
        "owner": {"dag_id": "d", "task_id": "load"}, "by": {"dag_id": "d", "run_id": "r", "task_id": "load", "try": 1},
        "history": [{"to": "2025-12-29T12:00:00+00:00", "run_id": "r"}], **fields,
    }  # fmt: skip
    stored = {k: v for k, v in record.items() if v is not None} if value is None else value
    return Entry(place=AssetPlace(asset_id=1, name="orders"), key=MARK, value=stored, updated=NOW)


ISLANDS = [["2025-12-30T00:00:00+00:00", "2025-12-31T00:00:00+00:00"]]
MARKS: dict[str, tuple[Entry, str, str | None]] = {
    "it moves": (mark(), "at work", None),
    "nothing was loaded yet": (mark(pending="initial"), "set (initial)", None),
    "a person has typed a value": (mark("2026-01-01T00:00:00Z"), "typed", None),
    "there is a gap": (
        mark(islands=ISLANDS),
        "at work",
        "not loaded: 2025-12-29T12:00:00+00:00 to 2025-12-30T00:00:00+00:00",
    ),
    "nobody owns it": (mark(owner=None), "at work", "no task owns it"),
    "it belongs to an older release": (mark(owner=None, taken_up=True), "taken over", None),
}


@pytest.mark.parametrize("case", MARKS)
def test_marks(case: str) -> None:
    entry, state, trouble = MARKS[case]
    row = mark_row(entry, NOW)
    print(f"{case:50} -> {row.state}: {row.trouble}")
    assert (row.state, row.trouble) == (state, trouble)


def test_a_mark_says_how_far_it_is_behind_and_who_moves_it() -> None:
    row = mark_row(mark(islands=ISLANDS), NOW)
    assert (row.lag, row.owner, row.moved_by) == (timedelta(days=3), "d load", "d r")
    assert row.gaps == (("2025-12-29T12:00:00+00:00", "2025-12-30T00:00:00+00:00"),)
    assert row.moves == ("2025-12-29T12:00:00+00:00 by r",)
    assert next_run(decoded(mark(), MarkRecord)) == "loads from 2025-12-29T12:00:00+00:00 on"


@pytest.mark.parametrize(
    ("at", "lag"),
    [
        ("2026-01-01T11:00:00+00:00", timedelta(hours=1)),
        ("2025-12-31", timedelta(days=1, hours=12)),
        (["2026-01-01T11:59:00Z", 7], timedelta(minutes=1)),
        ("12345", None),
        ("2026-xx", None),
        ("token", None),
        (7, None),
        ([], None),
    ],
)
def test_only_a_mark_in_time_is_behind(at: Any, lag: timedelta | None) -> None:
    assert lag_of(at, NOW) == lag


@pytest.mark.parametrize("partition", [None, "eu", "a/b ~ü", 7, ["x", 1]])
def test_the_name_and_the_partition_are_read_from_the_key(partition: Any) -> None:
    key = Keys.of(asset="a", name="w", partition=partition).mark
    shown = partition if isinstance(partition, str) else {7: "7"}.get(partition) if isinstance(partition, int) else None
    found = names_of(key)
    assert found[0] == "w"
    assert found[1] == (shown if not isinstance(partition, list) else '["x",1]')


# --- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 7, {"v": 99, "key": LOOP}, {"v": 1, "key": "other"}])
def test_what_is_no_record_is_said_to_be_unreadable(value: Any) -> None:
    place = TaskPlace(dag_id="d", run_id="r", task_id="t")
    with pytest.raises(Exception, match=r"cannot be read|answered with the record") as raised:
        loop_row(Entry(place=place, key=LOOP, value=value, updated=NOW), NOW)
    assert isinstance(raised.value, UnreadableRecordError) or "other" in str(raised.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 m"), (61, "1 m 1 s"), (3600, "1 h"), (3660, "1 h 1 m"),
     (90_061, "1 d 1 h"), (86_405, "1 d")],
)  # fmt: skip
def test_durations(seconds: int, text: str) -> None:
    assert in_words(timedelta(seconds=seconds)) == text
