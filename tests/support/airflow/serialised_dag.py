"""A Dag with every object of ours that a Dag may contain. As a script, it prints the Dag as Airflow serialises it."""

from __future__ import annotations

import json
import sys
import warnings
from datetime import date, datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, task

from airflow_resume import JobStatus, PollPolicy, ResumePolicy, checkpoint, watermark
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.jobs import Step
from airflow_resume.jobs.poll import Clock
from airflow_resume.jobs.trigger import PollJobTrigger
from airflow_resume.loops import (
    Batches,
    CursorToken,
    Files,
    Keyset,
    Offset,
    Page,
    PageNumber,
    Skip,
    TimeSlice,
    TimeSlices,
)
from airflow_resume.loops.serial.each import Each
from airflow_resume.loops.sources.stateful import ResumeFunction, Stateful
from airflow_resume.store import MemoryStore
from airflow_resume.watermarks import Cursor, Outcome
from airflow_resume_mixins import ResumableJobMixin, WatermarkMixin

SECRET = "hunter2"  # noqa: S105  looked for in what is serialised
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ORDERS = Asset("orders")
ALL_REASONS: Any = {"user", "shutdown", "timeout", "final_failure"}


def fetch(*_: Any) -> Any:
    return []


class Numbers:
    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> None: ...
    def __iter__(self) -> Any: ...


def _backend() -> SqlStoreBackend:
    return SqlStoreBackend(f"postgresql+psycopg://me:{SECRET}@localhost/state?sslpassword={SECRET}")


def objects() -> dict[str, Any]:
    """By the name of their kind."""
    marks = {
        "days": watermark(ORDERS, initial=date(2026, 1, 1), delay=timedelta(days=1)),
        "moments": watermark(ORDERS, initial=lambda: START, delay=timedelta(0), partition=lambda table: table),
        "ids": watermark(ORDERS, initial=0, now=lambda: 7, migrate=lambda value: value),
    }
    sources = {
        "batches": Batches([SECRET], size=1),
        "keyset": Keyset(fetch, key=lambda row: row, limit=2),
        "token": CursorToken(fetch, expired=lambda _error: False),
        "page": PageNumber(fetch),
        "offset": Offset(fetch, limit=2),
        "files": Files([SECRET], identity=lambda name: name),
        "slices": TimeSlices(START, step=timedelta(days=1)),
        "stateful": Stateful(Numbers()),
        "function": ResumeFunction(fetch),
        "each": Each(CursorToken(fetch)),
    }
    cursors = {
        "datetime": Cursor.datetime("Europe/Berlin", timedelta(seconds=1)),
        "date": Cursor.date(),
        "int": Cursor.int(10),
        "decimal": Cursor.decimal(1),
        "text": Cursor.text(),
        "keyset": Cursor.keyset(Cursor.datetime(), Cursor.int()),
        "token": Cursor.token(),
    }
    return {
        "policy": ResumePolicy(cancel_on={"user"}),
        "policy of all": ResumePolicy(cancel_on=ALL_REASONS, poll=PollPolicy(timeout=timedelta(hours=1))),
        "poll": PollPolicy(),
        "status": JobStatus.ACTIVE,
        "step": Step.SUBMIT,
        "outcome": Outcome.ADVANCED,
        "clock": Clock(),
        "skip": Skip(on=(ValueError, KeyError)),
        "page": Page([1], next="n"),
        "slice": TimeSlice(START, START),
        "loop": checkpoint([SECRET], name="orders", store=SqlStateStore(_backend(), "script")),
        "memory": MemoryStore(),
        "backend": _backend(),
        "store": SqlStateStore(_backend(), "script"),
        "trigger": PollJobTrigger(client="clients.Jobs", external_id=7),
        **{f"mark of {name}": each for name, each in marks.items()},
        **{f"source {name}": each for name, each in sources.items()},
        **{f"cursor {name}": each for name, each in cursors.items()},
    }


class Train(ResumableJobMixin, BaseOperator):
    template_fields = ("arguments", "resume_policy")

    def __init__(self, *, arguments: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.arguments = arguments

    def submit_job(self, context: Any) -> Any: ...
    def get_job_status(self, external_id: Any, context: Any) -> Any: ...
    def is_job_active(self, status: Any) -> Any: ...
    def is_job_succeeded(self, status: Any) -> Any: ...


class Load(WatermarkMixin, BaseOperator):
    template_fields = ("watermark",)
    watermark = watermark(ORDERS, initial=0, delay=0)

    def execute_window(self, context: Any, window: Any) -> None: ...


def dag() -> DAG:
    given = objects()
    policy = given["policy of all"]
    with DAG("everything", schedule=None, default_args={"resume_policy": policy, **given}, params={"n": 1}) as made:

        @task
        def function(**_: Any) -> None:
            pass

        function(**{name.replace(" ", "_"): each for name, each in given.items()})
        function.override(task_id="mapped").partial(policy=policy).expand(n=[1, 2])
        Train(task_id="train", arguments=list(given.values()), resume_policy=policy)
        Train.partial(task_id="trained", resume_policy=policy, arguments=given).expand(doc_md=["a", "b"])
        Load(task_id="load")
        Load.watermark.task(task_id="decorated")(lambda window: None)
    made.user_defined_macros = dict(given)
    return made


def serialised() -> str:
    from airflow.serialization.serialized_objects import DagSerialization

    return json.dumps(DagSerialization.to_dict(dag()), indent=1, sort_keys=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    # Another layout of the memory, so that an address is another one.
    ballast = [bytearray(n) for n in range(int(sys.argv[1]) * 997)]
    print(serialised())
