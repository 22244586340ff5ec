"""What the doctor says of a task: the whole table, printed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from airflow_resume_mixins.dag_findings import (
    Effect,
    Event,
    Kind,
    Level,
    TaskFacts,
    effects,
    level,
    remedy,
    table,
    warnings,
)

OURS = TaskFacts(kind=Kind.OURS, retries=2)
AIRFLOWS = TaskFacts(kind=Kind.AIRFLOWS, retries=2)
JOB = TaskFacts(kind=Kind.JOB, retries=2)
REQUEST = TaskFacts(kind=Kind.REQUEST, retries=2)
ROWS = [
    replace(OURS, closes_window=True),
    OURS,
    replace(OURS, deferrable=True, has_trigger=True),
    replace(OURS, ends_on_deploy=True),
    replace(OURS, durable=False),
    replace(OURS, retries=0),
    AIRFLOWS,
    replace(AIRFLOWS, cancels_on_kill=True),
    replace(AIRFLOWS, deferrable=True),
    replace(AIRFLOWS, durable=False),
    TaskFacts(kind=Kind.REATTACHES, retries=2),
    TaskFacts(kind=Kind.REATTACHES, retries=2, cancels_on_kill=True),
    JOB,
    replace(JOB, cancels_on_kill=True),
    replace(JOB, deferrable=True),
    replace(JOB, retries=0),
    REQUEST,
    TaskFacts(kind=Kind.SENSOR, retries=2),
    TaskFacts(kind=Kind.LOCAL, retries=2),
    TaskFacts(kind=Kind.LOCAL),
]
EXPECTED = """\
kind | options | SIGKILL | deploy | clear | retry
ResumableJobMixin | finds its job | resumes | resumes | starts over | resumes
ResumableJobMixin |  | reconnects | reconnects | starts over | reconnects
ResumableJobMixin | deferrable, job_trigger | reconnects | reconnects | starts over | reconnects
ResumableJobMixin | cancel_on shutdown | reconnects | starts over | starts over | reconnects
ResumableJobMixin | durable=False | duplicates | starts over | starts over | duplicates
ResumableJobMixin | retries=0 | fails | reconnects | starts over | fails
Airflow's mixin |  | reconnects | reconnects | the old job again | reconnects
Airflow's mixin | own on_kill | reconnects | starts over | the old job again | reconnects
Airflow's mixin | deferrable | reconnects | reconnects | duplicates | duplicates
Airflow's mixin | durable=False | duplicates | duplicates | duplicates | duplicates
reattaches in its own way |  | reconnects | reconnects | the old job again | reconnects
reattaches in its own way | own on_kill | reconnects | starts over | the old job again | reconnects
submits a job |  | duplicates | duplicates | duplicates | duplicates
submits a job | own on_kill | duplicates | starts over | starts over | duplicates
submits a job | deferrable | reconnects | reconnects | duplicates | duplicates
submits a job | retries=0 | fails | fails | duplicates | fails
sends a request |  | starts over | starts over | starts over | starts over
sensor |  | starts over | starts over | starts over | starts over
in the worker |  | starts over | starts over | starts over | starts over
in the worker | retries=0 | fails | fails | starts over | fails
"""


def test_the_whole_table() -> None:
    heading = ("kind", "options", *(event.value for event in Event))
    printed = "".join(" | ".join(row) + "\n" for row in (heading, *table(ROWS)))
    print(printed)
    assert printed == EXPECTED


PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()


def test_it_is_in_the_documents() -> None:
    rows = "".join(f"| {' | '.join(row)} |\n" for row in table(ROWS)).replace("|  |", "| |")
    heading = "| how it works | options | SIGKILL | deploy | clear | retry |\n|---|---|---|---|---|---|\n"
    assert f"<!-- table: doctor -->\n{heading}{rows}\n" in PAGE


BOOLEANS = (False, True)


@pytest.mark.parametrize("kind", Kind)
def test_every_combination_has_an_effect_and_without_retries_only_a_deploy_of_ours_goes_on(kind: Kind) -> None:
    for flags in product((0, 2), *[BOOLEANS] * 6):
        names = (
            "retries",
            "deferrable",
            "has_trigger",
            "closes_window",
            "durable",
            "cancels_on_kill",
            "ends_on_deploy",
        )
        facts = TaskFacts(kind=kind, **dict(zip(names, flags, strict=True)))  # type: ignore[arg-type]
        found = effects(facts)
        assert found.keys() == set(Event)
        assert Effect.FAILS not in found.values() or not facts.retries
        if facts.retries == 0:
            assert found[Event.RETRY] is Effect.FAILS
        assert (level(facts) is Level.ERROR) == (Effect.DUPLICATES in found.values())


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(JOB, retries=0), "retries=0: no attempt looks after the job when the worker dies"),
        (
            replace(OURS, execution_timeout=timedelta(hours=1), job_time=timedelta(hours=2)),
            "execution_timeout=1:00:00 is shorter than the job may take (2:00:00)",
        ),
        (replace(AIRFLOWS, cancels_on_kill=True), "its on_kill cancels the job on every deploy"),
        (
            replace(OURS, deferrable=True),
            "deferrable=True without a job_trigger: it waits in its worker (or use ResumePolicy(wait='reschedule'))",
        ),
        (
            replace(JOB, deferrable=True, cancels_on_kill=True),
            "deferrable=True in its own way: after a failed trigger a retry submits another job",
        ),
        (replace(OURS, durable=False), "durable=False: every attempt submits a job"),
        (replace(JOB, left_alone="it has its own execute"), "not upgraded: it has its own execute"),
        (replace(JOB, would_not="its own execute"), "[airflow_resume] upgrade would leave it alone: its own execute"),
        (replace(JOB, left_alone="a", would_not="a"), "not upgraded: a"),
        (replace(JOB, cannot_resume="a sidecar"), "it does not resume: a sidecar"),
        (replace(OURS, doubt="no connection"), "whether it resumes is seen only when it runs: no connection"),
        (replace(REQUEST, deferrable=True), "it waits for no job: a retry sends its request again"),
    ],
)
def test_a_warning(facts: TaskFacts, said: str) -> None:
    assert warnings(facts) == [said]
    assert level(facts) is not Level.OK


@pytest.mark.parametrize(
    "facts",
    [
        replace(OURS, closes_window=True),
        replace(OURS, cancels_on_kill=True),
        replace(OURS, deferrable=True, reschedules=True),
        replace(OURS, execution_timeout=timedelta(hours=2), job_time=timedelta(hours=2)),
        TaskFacts(kind=Kind.LOCAL),
        TaskFacts(kind=Kind.SENSOR, deferrable=True),
    ],
)
def test_nothing_to_warn_of(facts: TaskFacts) -> None:
    assert warnings(facts) == []
    assert level(facts) is Level.OK


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (replace(JOB, item="amazon.AthenaOperator"), "[airflow_resume] upgrade = amazon.AthenaOperator"),
        (replace(AIRFLOWS, operator="Livy"), "class Livy(ResumableJobMixin, Livy): docs/providers.md."),
        (
            replace(JOB, operator="Dbt"),
            "class Dbt(ProviderJob, Dbt), see 'Write a recipe in ten minutes': docs/providers.md.",
        ),
        (OURS, "Write a find_job, or submission_is_idempotent = True: docs/jobs.md."),
        (replace(OURS, closes_window=True), ""),
        (replace(OURS, durable=False), "Remove durable=False."),
        (replace(JOB, item="amazon.X", left_alone="why"), ""),
        (replace(JOB, item="amazon.X", would_not="why"), ""),
        (replace(JOB, item="amazon.X", cannot_resume="why"), ""),
        (replace(JOB, advice="Give it an id."), "Give it an id."),
        (REQUEST, ""),
        (TaskFacts(kind=Kind.LOCAL), ""),
    ],
)
def test_the_line_that_mends_it(facts: TaskFacts, line: str) -> None:
    assert remedy(facts) == line


def test_a_request_is_a_warning_and_no_error_and_in_the_triggerer_it_goes_on() -> None:
    assert level(REQUEST) is Level.WARNING
    found = effects(replace(REQUEST, deferrable=True))
    assert (found[Event.SIGKILL], found[Event.RETRY]) == (Effect.RECONNECTS, Effect.STARTS_OVER)
