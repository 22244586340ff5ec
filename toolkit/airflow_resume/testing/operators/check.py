"""Play what happens to a task on an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_resume.testing.errors import UndisturbedRunError
from airflow_resume.testing.operators.player import Case, Ended, MakeOperator, Player, playing, told
from airflow_resume.testing.operators.report import OperatorReport
from airflow_resume.testing.operators.scenarios import SCENARIOS, check_expand
from airflow_resume.testing.operators.service import JobService


def _as_it_is(value: Any) -> Any:
    return value


def check_operator(
    make_operator: MakeOperator,
    service: JobService,
    *,
    scenarios: Iterable[str] | None = None,
    not_waiting: Mapping[str, Any] | None = None,
    deferrable: Mapping[str, Any] | None = None,
    event: Any = None,
    expand: str | None = None,
    same_as: MakeOperator | None = None,
    normalise: Callable[[Any], Any] = _as_it_is,
    questions: int = 6,
    at_question: int = 2,
    seconds: float = 10.0,
    grace: float = 1.0,
) -> OperatorReport:
    """Play crashes, a deploy, a clear and more on an operator, and see how many jobs it makes and what it returns.

        report = check_operator(lambda **options: LivyOperator(task_id="task", file="a.py", **options), livy.jobs)
        print(report)
        assert not report.problems

    The operator and its client are the real ones, and the service is on loopback or in this process. Where an attempt
    dies, the service is about to answer it: the main thread gets a signal, so its client does not matter. What a dead
    attempt still does has no effect, neither in the stores nor in the service. Every scenario has a run of its own, and
    its last attempt is compared with the undisturbed one: what it returned, and its XComs.

    The kit uses SIGUSR1 and SIGTERM, and restores their handlers.

    Args:
        make_operator: makes the operator of an attempt, with the options of the scenario as keyword arguments. It must
            poll quickly.
        service: the jobs of the service that the operator talks to.
        scenarios: which to play; by default all of `SCENARIOS` for which enough is given.
        not_waiting: the options with which the operator submits and does not wait, for the scenario "not waiting".
        deferrable: the options with which it defers, for the scenario "deferrable".
        event: of the trigger; None: the trigger is run, and fires its own.
        expand: the argument that is mapped, with the value that the operator is given, or the default of it; by default
            a template field that is given, or else another one.
        same_as: makes the operator whose undisturbed run has the right result, e.g. the provider's own; by default
            `make_operator`.
        normalise: makes results comparable that differ from run to run. It gets `[returned, XComs]`, in which the ids
            of jobs and of the run are replaced already.
        questions: for how many questions a job runs before it ends.
        at_question: the question at which an attempt is disturbed while it waits, counted from 1. The operator must
            have saved the id of the job by then.
        seconds: after how long an attempt counts as hanging.
        grace: how many seconds after SIGTERM an attempt is killed.

    Raises:
        ValueError: there is no such scenario, or something is missing for it, such as an argument to map.
        UndisturbedRunError: the operator fails even if nothing happens to it.
        NeverFiredError: the service did not tell of a job or a question, so nothing was disturbed.
        CannotKillError: this is not the main thread, or the platform has no such signals.
    """
    case = Case(
        service=service,
        not_waiting=not_waiting,
        deferrable=deferrable,
        event=event,
        expand=expand,
        normalise=normalise,
        questions=questions,
        at_question=at_question,
        seconds=seconds,
        grace=grace,
    )
    chosen = _chosen(scenarios, case)
    if "mapped" in chosen:
        check_expand(make_operator, expand)
    with playing(case) as begin:
        expected = _undisturbed(begin(make_operator=same_as or make_operator)).value
        rows = {
            name: SCENARIOS[name].play(
                begin(make_operator=make_operator, expected=expected, options=SCENARIOS[name].options(case))
            )
            for name in chosen
        }
    return OperatorReport(
        operator=type(make_operator()).__name__,
        rows=rows,
        ideal={name: SCENARIOS[name].ideal for name in chosen},
    )


def _chosen(scenarios: Iterable[str] | None, case: Case) -> list[str]:
    missing = {name: scenario.needs(case) for name, scenario in SCENARIOS.items()}
    if scenarios is None:
        return [name for name, what in missing.items() if what is None]
    chosen = list(scenarios)
    for name in chosen:
        if name not in SCENARIOS:
            raise ValueError(f"There is no scenario {name!r}.\nThere are: {', '.join(map(repr, SCENARIOS))}")
        if missing[name] is not None:
            raise ValueError(f"The scenario {name!r} needs {missing[name]}.")
    return chosen


def _undisturbed(player: Player) -> Ended:
    ended = player.run()
    if ended.how != "returned":
        how = ": ".join(filter(None, told(ended)))
        raise UndisturbedRunError(
            f"Nothing was done to the operator, and its attempt has not returned ({how}).",
            "Make it return first: task_context(make_operator) runs one attempt.",
        ) from ended.error
    return ended
