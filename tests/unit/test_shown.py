"""Text from strangers in messages and logs: no line that is not ours, nothing that a terminal obeys."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from hypothesis import given
from hypothesis import strategies as st

import airflow_resume
import airflow_resume_mixins
from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from airflow_resume.errors import ResumeError
from airflow_resume.jobs.trigger import JobTrigger
from airflow_resume.loops import CursorToken, Files, Keyset, Page, Skip
from airflow_resume.shown import get_logger, shown
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, FakeTaskStore, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, equipped

FORGED = "2026-01-01 CRITICAL forged"
EVIL = f"x\n{FORGED}\r\x1b[2J\x9b1m\u202e\u200b\u2028"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
AT_ONCE = ResumePolicy(
    poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)),
    unknown_timeout=timedelta(0),
    confirm_gone=timedelta(0),
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_resume.jobs.trigger.CANCEL_PAUSE", 0)


class OddError(Exception):
    """With a text, and a text of itself, that a stranger wrote."""

    def __repr__(self) -> str:
        return EVIL


def is_harmless(text: str) -> bool:
    return not HARMFUL.search(text) and not any(line.startswith(FORGED) for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("é 日本 🎉", "é 日本 🎉"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b[2J\x9b", r"\x1b[2J\x9b"),
        ("\u202e\u200b\ud800", r"\u202e\u200b\ud800"),
        ("x" * 30_000, "x" * 20_000 + "..."),
    ],
)
def test_what_is_shown(text: str, visible: str) -> None:
    assert shown(text) == visible


@given(st.text(st.characters()))
def test_nothing_that_is_shown_does_harm(text: str) -> None:
    assert is_harmless(shown(text))
    assert is_harmless(str(ResumeError(text, text)))
    assert str(ResumeError(text or "x", "so")).count("\n") == 1


def lost_job() -> None:
    run_job(FakeJobs(ids=lambda n: f"{EVIL}{n}", scripts=[["RUNNING", EVIL, "FAILED"], ["SUCCEEDED"]]), policy=AT_ONCE)


def refused_job() -> None:
    jobs = FakeJobs(can_find=False)
    jobs.fail_next("submit", OddError(EVIL), applied=True)
    run_job(jobs, policy=AT_ONCE)


def uncancellable_job() -> None:
    jobs = FakeJobs(ids=lambda n: f"{EVIL}{n}", scripts=[["RUNNING"] * 9])
    for call in ("cancel", "status"):
        for _ in range(9):
            jobs.fail_next(call, OddError(EVIL))
    run_job(jobs, policy=ResumePolicy(poll=AT_ONCE.poll, cancel_on={"final_failure"}))


def skips() -> None:
    with checkpoint([EVIL, "b"], name="skips", skip=Skip(on=(OddError,), limit=5)) as loop:
        for _ in loop:
            with loop.skipping():
                raise OddError(EVIL)


def tokens() -> None:
    def fetch(token: Any) -> Page[int]:
        if token:
            raise OddError(EVIL)
        return Page([1], EVIL)

    list(checkpoint(CursorToken(fetch, expired=OddError), name="tokens"))


def repeated_tokens() -> None:
    list(checkpoint(CursorToken(lambda _: Page([1], EVIL)), name="repeated"))


def files() -> None:
    list(checkpoint(Files([EVIL, EVIL]), name="files"))


def keys() -> None:
    list(checkpoint(Keyset(lambda *_: [{"id": EVIL}, {"id": ""}], key="id", limit=2), name="keys"))


def damaged_record() -> None:
    store = MemoryStore()
    store.values["resume.loop.l"] = {"v": 1, "key": "resume.loop.l", EVIL: EVIL, "kind": [EVIL], "fp": {EVIL: 7}}
    with suppress(ResumeError):
        list(checkpoint([1], name="l", store=store, on_unreadable="restart"))
    list(checkpoint([1], name="l", store=store))
    store.values["resume.loop.l"] = {"v": 1, "key": EVIL}
    list(checkpoint([1], name="l", store=store))


def patient_job() -> None:
    jobs: Any = FakeJobs(scripts=[["RUNNING", "SUCCEEDED"]])
    jobs.transient_errors = (OddError,)
    jobs.fail_next("status", OddError(EVIL))
    run_job(jobs, policy=AT_ONCE)


def patient_store() -> None:
    airflow_is_away = type("AirflowRuntimeError", (Exception,), {})

    errors = [airflow_is_away(EVIL)] * 2

    class Away(FakeTaskStore):
        def get(self, key: str, default: Any = None) -> Any:
            if errors:
                raise errors.pop()
            return super().get(key, default)

    list(checkpoint([1], name="l", store=Away()))


def patient_trigger() -> None:
    class Ends(JobTrigger):
        async def wait(self) -> None: ...

        async def cancel(self) -> None:
            raise OddError(EVIL)

    trigger: Any = Ends(external_id=EVIL)
    with suppress(OddError):
        asyncio.run(trigger._cancel_patiently())


def fired_trigger() -> None:
    class Operator(JobHooks, ResumableJobMixin, BaseOperator):
        pass

    begun = SimpleNamespace(run=bool)
    operator: Any = equipped(Operator(task_id="t"), _begin=lambda *_args, **_options: begun)
    operator.resume_complete({}, {"state": OddError(EVIL)})


def link_of_job() -> None:
    class Operator(JobHooks, ResumableJobMixin, BaseOperator):
        def job_url(self, external_id: Any) -> str:
            raise OddError(EVIL)

    operator: Any = Operator(task_id="t")
    operator._show_link({})


PATIENT = [patient_job, patient_store, patient_trigger]
JOBS = [fired_trigger, link_of_job, lost_job, refused_job, uncancellable_job]
SURFACES = [*PATIENT, *JOBS, skips, tokens, repeated_tokens, files, keys, damaged_record]


@pytest.mark.parametrize("surface", SURFACES)
def test_no_log_line_and_no_error_text_does_harm(surface: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    raised: list[str] = []
    with task_context():
        try:
            surface()
        except ResumeError as error:
            raised.append(str(error))
        except OddError:  # the author's own, which is not ours to change
            pass
    form = logging.Formatter("%(levelname)s %(message)s")
    told = [form.format(record) for record in caplog.records]
    assert told or raised
    for text in [*raised, *told]:
        assert is_harmless(text), repr(text)


def test_a_traceback_in_the_log_has_no_forged_line(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("airflow_resume.example").error("It failed:\n%s", EVIL, exc_info=OddError(EVIL))
    text = logging.Formatter().format(caplog.records[-1])
    assert is_harmless(text)
    assert text.startswith("It failed:\nx\\n2026")
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("surface", PATIENT)
def test_a_line_about_another_try_is_short_and_names_what_was_tried(
    surface: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EVIL", EVIL * 5_000)
    with task_context(), suppress(OddError):
        surface()
    told = [record.getMessage() for record in caplog.records if "is tried again" in record.getMessage()]
    assert told
    for line in told:
        assert is_harmless(line)
        assert len(line) < 1_000
        assert "lambda" not in line
        assert "<" not in line


ROOTS = [Path(airflow_resume.__file__).parent, Path(airflow_resume_mixins.__file__).parent]


@pytest.mark.parametrize(
    "unescaped", ["logging.getLogger(", "before_sleep_log", "before_log", "after_log", "self.log."]
)
def test_everything_in_the_package_logs_by_such_a_logger(unescaped: str) -> None:
    plain = {
        str(path.relative_to(root)) for root in ROOTS for path in root.rglob("*.py") if unescaped in path.read_text()
    }
    allowed = {
        # What hides secrets in the logs of drivers, and what makes a logger quiet.
        "logging.getLogger(": {"shown.py", "backends/urls/driver_logs.py", "testing/crashes/log_levels.py"},
        "self.log.": {"testing/fakes/operations.py"},  # a list
    }
    assert plain == allowed.get(unescaped, set())
