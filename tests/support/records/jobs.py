"""Jobs that one attempt leaves and the next one continues, each with the required outcome; see `scene`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, Literal
from uuid import UUID

from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin
from airflow.sdk.exceptions import TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.testing import FakeJobs
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped
from tests.support.records.scene import Killed, Scene

MAX_DEFERRALS = 5

Go = Callable[[Scene, ResumePolicy], Any]

QUICK = PollPolicy(interval=timedelta(milliseconds=1), max_interval=timedelta(milliseconds=1))
LONG = ("RUNNING", "RUNNING", "SUCCEEDED")
FAILING = ("RUNNING", "FAILED")
IDS: dict[str, Any] = {
    "text": "job-0",
    "number": 7,
    "zero": 0,
    "empty": "",
    "list": ["eu", 7],
    "dict": {"region": "eu", "run": 7},
}
RESULTS: dict[str, Any] = {
    "none": None,
    "false": False,
    "int": 2**53 + 1,
    "float": 0.1,
    "text": "é",
    "list": [1, [None]],
    "dict": {"a": {"b": 1}},
    "tagged": {"~datetime": "not one"},
    "datetime": datetime(2026, 1, 1, 12, 30, 0, 7, tzinfo=timezone.utc),
    "naive": datetime(2026, 1, 1, 12),  # noqa: DTZ001  a result may be
    "date": date(2026, 2, 28),
    "decimal": Decimal("1.10"),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "bytes": b"\x00\xff",
    "tuple": (1, (Decimal(2), b"")),
    "large": ["x" * 80] * 80,
}


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    """An operator of ours."""

    inputs: Any = None

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)

    def job_inputs(self, context: Any) -> Any:
        return self.inputs


class Deferring(Train):
    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return f"trigger for {external_id}"


class Theirs(LookUpHooks, AirflowResumableJobMixin, BaseOperator):
    """An operator of a provider, with Airflow's mixin."""

    external_id_key = "theirs_run_id"

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.jobs.status(external_id) == "RUNNING":
            pass

    def on_kill(self) -> None:
        for job in self.jobs.alive():
            self.jobs.cancel(job)


class Wrapped(ResumableJobMixin, Theirs):
    """The same, upgraded by one line."""


def in_function(scene: Scene, policy: ResumePolicy, name: str = "job") -> Any:
    return run_job(scene.jobs, name=name, policy=policy, context=scene.context)


def in_two_slots(scene: Scene, policy: ResumePolicy) -> Any:
    return [in_function(scene, policy, name) for name in ("one", "two")]


def made(kind: Any, scene: Scene, policy: ResumePolicy, **attributes: Any) -> Any:
    return equipped(kind(task_id="task", resume_policy=policy), jobs=scene.jobs, **attributes)


def in_operator(scene: Scene, policy: ResumePolicy, *, kind: Any = Train, **attributes: Any) -> Any:
    return made(kind, scene, policy, **attributes).execute(scene.context)


def after_deferral(scene: Scene, policy: ResumePolicy) -> Any:
    """The task dies when it has deferred; afterwards its triggers fire, whether or not the job has ended."""
    operator = made(Deferring, scene, policy)
    go_on = operator.execute
    for _ in range(MAX_DEFERRALS):
        try:
            return go_on(scene.context)
        except TaskDeferred as deferred:
            if not scene.notes.get("deferred"):
                scene.notes["deferred"] = True
                scene.die()
            go_on = partial(getattr(operator, deferred.method_name), event={})
    raise AssertionError("it defers again and again")


def marked_failed(scene: Scene, policy: ResumePolicy) -> Any:
    """A person marks the task as failed while it waits; afterwards it runs as usual."""
    operator: Any = made(Train, scene, policy)

    def killed(_external_id: Any, _context: Any) -> None:
        scene.attempt.mark("failed")
        operator.on_kill()
        scene.die()

    if scene.attempt.ti.try_number == 1:
        object.__setattr__(operator, "get_job_status", killed)
    return operator.execute(scene.context)


def die_at(call: str, *, applied: bool = False) -> Callable[[Scene], None]:
    return lambda scene: scene.jobs.fail_next(call, Killed(), applied=applied)


def fail_all(_scene: Scene) -> None:
    """Nothing is ordered: the jobs of the script fail."""


@dataclass(kw_only=True)
class JobScenario:
    """A job that one attempt leaves and the next one continues.

    Args:
        lives: what is ordered before each attempt that is left behind, the first one first.
        between: how the task goes on after an attempt, and at the end the one that takes the job up.
        go: runs the task.
        submits: how many jobs the attempt that takes it up submits.
        same_token: it does so with the token on record; None where either will do.
        gives: what it returns, or the name of the error that it raises.
        jobs: makes the job system.
    """

    lives: tuple[Callable[[Scene], None], ...]
    submits: int
    gives: Any
    go: Go = in_function
    go_later: Go | None = None
    between: Literal["retry", "clear"] = "retry"
    jobs: Callable[[], FakeJobs] = lambda: FakeJobs(scripts=[LONG])
    policy: dict[str, Any] = field(default_factory=dict)
    alter: Callable[[FakeJobs], None] = lambda _jobs: None
    same_token: bool | None = False

    def leave(self) -> Scene:
        """Run it until the last attempt dies."""
        scene = Scene(jobs=self.jobs())
        for number, order in enumerate(self.lives):
            if number:
                scene.retry()
            order(scene)
            with scene.dying():
                try:
                    self.go(scene, self._policy())
                except Exception as error:  # noqa: BLE001  the attempt has failed, and says how
                    scene.notes["failed"] = type(error).__name__
        self.alter(scene.jobs)
        return scene

    def take_up(self, scene: Scene) -> dict[str, Any]:
        """What the next attempt does, as JSON."""
        jobs = scene.jobs
        before, tokens = len(jobs.jobs), _tokens(scene)
        jobs.most_alive = len(jobs.alive())
        getattr(scene, self.between)()
        try:
            outcome: Any = (self.go_later or self.go)(scene, self._policy())
        except Exception as error:  # noqa: BLE001  by its name
            outcome = type(error).__name__
        same_token = [job.token for job in jobs.jobs[before:]] == tokens[-1:]
        return {
            "gives": repr(outcome),
            "submits": len(jobs.jobs) - before,
            "most_alive": jobs.most_alive,
            "with the same token": self.same_token is not None and same_token,
            "tokens that are on record no more": sorted(set(tokens) - set(_tokens(scene))),
        }

    def expected(self) -> dict[str, Any]:
        """The required outcome."""
        return {
            "gives": repr(self.gives),
            "submits": self.submits,
            "most_alive": min(1, self.submits) if self.most_alive is None else self.most_alive,
            "with the same token": bool(self.same_token),
            "tokens that are on record no more": [],
        }

    most_alive: int | None = None

    def _policy(self) -> ResumePolicy:
        return ResumePolicy(**{"poll": QUICK, **self.policy})


def _tokens(scene: Scene) -> list[str]:
    """All that are on record, oldest first."""
    return [
        each["token"]
        for key, record in scene.records.items()
        if " resume.job." in key
        for each in [*record.get("history", ()), record]
    ]


def _ids(external_id: Any) -> Callable[[], FakeJobs]:
    """A job system whose first job has this id."""
    return lambda: FakeJobs(scripts=[LONG], ids=lambda number: external_id if number == 0 else f"other-{number}")


def _results(result: Any) -> Callable[[], FakeJobs]:
    return lambda: FakeJobs(scripts=[["SUCCEEDED"]], results=lambda _id: result)


def _forget(jobs: FakeJobs) -> None:
    for job in jobs.jobs:
        job.forgotten = True


def _cancel_all(jobs: FakeJobs) -> None:
    for job in jobs.jobs:
        jobs.cancel(job.id)


def _without(**options: Any) -> Callable[[], FakeJobs]:
    return lambda: FakeJobs(scripts=[LONG], **options)


def _first_fails() -> FakeJobs:
    return FakeJobs(scripts=[FAILING, FAILING, FAILING, LONG])


HANGS_AT_STATUS = (die_at("status"),)
JOB = {"job": "job-0"}
NEXT = {"job": "job-1"}

SCENARIOS: dict[str, JobScenario] = {
    # --- an intent -------------------------------------------------------------------------------------------
    "intent, nothing created": JobScenario(lives=(die_at("submit"),), submits=1, same_token=True, gives=JOB),
    "intent, created": JobScenario(lives=(die_at("submit", applied=True),), submits=0, gives=JOB, most_alive=1),
    "intent, tokens": JobScenario(
        lives=(die_at("submit", applied=True),),
        jobs=_without(can_find=False, dedupes=True),
        submits=0,
        gives=JOB,
        most_alive=1,
    ),
    "intent, lost": JobScenario(
        lives=(die_at("submit", applied=True),),
        jobs=_without(can_find=False),
        submits=0,
        gives="LostSubmissionError",
        most_alive=1,
    ),
    "intent, refused": JobScenario(
        lives=(lambda scene: scene.jobs.fail_next("submit", ConnectionRefusedError()),),
        submits=1,
        gives=JOB,
        same_token=None,
    ),
    # --- submitted -------------------------------------------------------------------------------------------
    **{
        f"submitted, id {name}": JobScenario(
            lives=HANGS_AT_STATUS, jobs=_ids(each), submits=0, gives={"job": each}, most_alive=1
        )
        for name, each in IDS.items()
    },
    "submitted, taken up twice": JobScenario(lives=HANGS_AT_STATUS * 2, submits=0, gives=JOB, most_alive=1),
    "submitted, then cleared": JobScenario(lives=HANGS_AT_STATUS, between="clear", submits=1, gives=NEXT, most_alive=1),
    "submitted, then cleared, resume": JobScenario(
        lives=HANGS_AT_STATUS, between="clear", policy={"on_clear": "resume"}, submits=0, gives=JOB, most_alive=1
    ),
    "submitted, cancelled by hand": JobScenario(
        lives=HANGS_AT_STATUS, alter=_cancel_all, submits=1, gives=NEXT, most_alive=1
    ),
    "submitted, operator": JobScenario(lives=HANGS_AT_STATUS, go=in_operator, submits=0, gives=JOB, most_alive=1),
    "submitted, operator of a provider": JobScenario(
        lives=HANGS_AT_STATUS, go=partial(in_operator, kind=Wrapped), submits=0, gives=JOB, most_alive=1
    ),
    "submitted, back to Airflow's mixin": JobScenario(
        lives=HANGS_AT_STATUS,
        go=partial(in_operator, kind=Wrapped),
        go_later=lambda scene, _policy: equipped(Theirs(task_id="task"), jobs=scene.jobs).execute(scene.context),
        submits=0,
        gives=None,
        most_alive=1,
    ),
    "submitted, inputs": JobScenario(
        lives=HANGS_AT_STATUS, go=partial(in_operator, inputs={"day": 1}), submits=0, gives=JOB, most_alive=1
    ),
    "submitted, other inputs": JobScenario(
        lives=HANGS_AT_STATUS,
        go=partial(in_operator, inputs={"day": 1}),
        go_later=partial(in_operator, inputs={"day": 2}),
        submits=1,
        gives=NEXT,
        most_alive=1,
    ),
    "submitted, deferred": JobScenario(lives=(fail_all,), go=after_deferral, submits=0, gives=JOB, most_alive=1),
    "submitted, marked failed, then cleared": JobScenario(
        lives=(fail_all,), go=marked_failed, between="clear", submits=1, gives=NEXT, most_alive=1
    ),
    "two slots": JobScenario(lives=(die_at("result"),), go=in_two_slots, submits=1, gives=[JOB, NEXT], most_alive=1),
    # --- terminal --------------------------------------------------------------------------------------------
    **{
        f"succeeded, result {name}": JobScenario(
            lives=(fail_all,), jobs=_results(result), alter=_forget, submits=0, gives=result
        )
        for name, result in RESULTS.items()
        if name != "large"
    },
    "succeeded, result too large": JobScenario(
        lives=(fail_all,), jobs=_results(RESULTS["large"]), submits=0, gives=RESULTS["large"]
    ),
    "succeeded, then cleared": JobScenario(lives=(fail_all,), between="clear", submits=1, gives=NEXT),
    "succeeded, then cleared, resume": JobScenario(
        lives=(fail_all,), between="clear", policy={"on_clear": "resume"}, submits=0, gives=JOB
    ),
    "succeeded, operator of a provider": JobScenario(
        lives=(fail_all,), go=partial(in_operator, kind=Wrapped), alter=_forget, submits=0, gives=JOB
    ),
    "failed": JobScenario(lives=(fail_all,), jobs=_first_fails, submits=1, gives="JobFailedError"),
    "failed, for good": JobScenario(
        lives=(fail_all,), jobs=_first_fails, policy={"on_failed_job": "fail"}, submits=0, gives="JobFailedForGoodError"
    ),
    "failed three times": JobScenario(lives=(fail_all,) * 3, jobs=_first_fails, submits=1, gives={"job": "job-3"}),
    "failed, then not fetched": JobScenario(
        lives=(fail_all, die_at("result")),
        jobs=lambda: FakeJobs(scripts=[["FAILED"], ["SUCCEEDED"]]),
        submits=0,
        gives=NEXT,
    ),
}
