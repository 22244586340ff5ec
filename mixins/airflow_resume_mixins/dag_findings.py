"""What happens to a task when it is killed, deployed, cleared or retried: a pure table, from facts to words.

`dag_doctor` gathers the facts. What stands here is what Airflow's operators do today; that of jobs with our mixin is
tested on a real Airflow, see docs/jobs-compared.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum


class Kind(Enum):
    """How a task does its work."""

    OURS = "ResumableJobMixin"
    AIRFLOWS = "Airflow's mixin"
    REATTACHES = "reattaches in its own way"
    JOB = "submits a job"
    """Elsewhere, and does not look for it again."""
    REQUEST = "sends a request"
    """To another system, and waits for no job there."""
    SENSOR = "sensor"
    LOCAL = "in the worker"
    """It works in its own process, or nobody knows."""


class Event(Enum):
    """What happens to a task while its job runs."""

    SIGKILL = "SIGKILL"
    """Of the worker, as when memory is short."""
    DEPLOY = "deploy"
    """SIGTERM to the task."""
    CLEAR = "clear"
    """By a person, while the job runs or after its end: the worse of both."""
    RETRY = "retry"
    """The attempt fails although the job is alive, for example because a question for its status failed."""


class Effect(Enum):
    """What becomes of the job then."""

    RESUMES = "resumes"
    """One job and its result, whenever the task is killed."""
    RECONNECTS = "reconnects"
    """Likewise, unless it is killed between the submit and the moment when the id is saved."""
    STARTS_OVER = "starts over"
    """The next attempt does all the work again. If there was a job in another system, it has been ended first."""
    DUPLICATES = "duplicates"
    """The next attempt submits another job beside the first."""
    OLD_JOB = "the old job again"
    """Nothing is submitted."""
    FAILS = "fails"
    """There is no other attempt."""


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """What is known of a task."""

    kind: Kind
    retries: int = 0
    deferrable: bool = False
    has_trigger: bool = False
    """Ours: there is a `job_trigger`."""
    reschedules: bool = False
    """Ours: the policy waits by reschedule, without a worker slot."""
    closes_window: bool = False
    """Ours: a job whose id was not saved is found, or submitting it again gives the same one."""
    durable: bool = True
    cancels_on_kill: bool = False
    """There is an `on_kill` of the operator's own."""
    ends_on_deploy: bool = False
    """Ours: the policy cancels the job at a deploy."""
    execution_timeout: timedelta | None = None
    job_time: timedelta | None = None
    """How long the job may take, by its own arguments; None if they do not say."""
    item: str | None = None
    """The item of `[airflow_resume] upgrade` that is for the operator."""
    left_alone: str | None = None
    """Why that setting does not upgrade it, although it names it."""
    would_not: str | None = None
    """Why it would not, if it named it."""
    cannot_resume: str | None = None
    """Why a class of ours would not resume with these arguments."""
    doubt: str | None = None
    """Why that is not known here."""
    advice: str = ""
    """The line that mends it, if it is another one for this operator."""
    operator: str = "TheOperator"


def effects(facts: TaskFacts) -> Mapping[Event, Effect]:
    """What each event leads to."""
    return {event: _effect(facts, event) for event in Event}


def _effect(facts: TaskFacts, event: Event) -> Effect:
    match facts.kind:
        case Kind.OURS:
            effect = _of_ours(facts, event)
        case Kind.AIRFLOWS if not facts.deferrable and facts.durable:
            effect = _of_airflows(facts, event)
        case Kind.REATTACHES:
            effect = _of_one_that_reattaches(facts, event)
        case Kind.REQUEST if _is_deferred(facts) and event in {Event.SIGKILL, Event.DEPLOY}:
            effect = Effect.RECONNECTS
        case Kind.AIRFLOWS | Kind.JOB:
            effect = _of_a_job(facts, event)
        case _:
            effect = Effect.STARTS_OVER
    return effect if facts.retries or event is Event.CLEAR or _needs_no_retry(facts, event) else Effect.FAILS


def _needs_no_retry(facts: TaskFacts, event: Event) -> bool:
    """A task of ours that is told to go comes back in the same try; one that is deferred is in no worker."""
    if facts.kind is Kind.OURS and event is Event.DEPLOY:
        return facts.durable and not facts.ends_on_deploy
    return _is_deferred(facts) and event in {Event.SIGKILL, Event.DEPLOY}


def _is_deferred(facts: TaskFacts) -> bool:
    return facts.deferrable and (facts.kind is not Kind.OURS or facts.has_trigger)


def _of_ours(facts: TaskFacts, event: Event) -> Effect:
    if event is Event.CLEAR or (event is Event.DEPLOY and (facts.ends_on_deploy or not facts.durable)):
        return Effect.STARTS_OVER
    if not facts.durable:
        return Effect.DUPLICATES
    return Effect.RESUMES if facts.closes_window else Effect.RECONNECTS


def _of_airflows(facts: TaskFacts, event: Event) -> Effect:
    if event is Event.CLEAR:
        return Effect.OLD_JOB
    return Effect.STARTS_OVER if event is Event.DEPLOY and facts.cancels_on_kill else Effect.RECONNECTS


def _of_one_that_reattaches(facts: TaskFacts, event: Event) -> Effect:
    """It looks for its job by what a clear does not change."""
    if event is Event.CLEAR:
        return Effect.OLD_JOB
    return Effect.STARTS_OVER if event is Event.DEPLOY and facts.cancels_on_kill else Effect.RECONNECTS


def _of_a_job(facts: TaskFacts, event: Event) -> Effect:
    if facts.deferrable:
        return Effect.RECONNECTS if event in {Event.SIGKILL, Event.DEPLOY} else Effect.DUPLICATES
    is_told = event in {Event.DEPLOY, Event.CLEAR}
    return Effect.STARTS_OVER if is_told and facts.cancels_on_kill else Effect.DUPLICATES


# --- what is wrong, and what mends it -------------------------------------------------------------------------


def warnings(facts: TaskFacts) -> list[str]:
    """What is likely a mistake, or is not known to many."""
    return list(_warnings(facts))


def _warnings(facts: TaskFacts) -> Iterator[str]:
    has_job = facts.kind not in {Kind.LOCAL, Kind.REQUEST, Kind.SENSOR}
    if has_job and not facts.retries:
        yield "retries=0: no attempt looks after the job when the worker dies"
    if has_job and _is_shorter(facts.execution_timeout, facts.job_time):
        yield f"execution_timeout={facts.execution_timeout} is shorter than the job may take ({facts.job_time})"
    is_not_ours = facts.kind in {Kind.AIRFLOWS, Kind.JOB, Kind.REATTACHES}
    if facts.cancels_on_kill and is_not_ours and not facts.deferrable:
        yield "its on_kill cancels the job on every deploy"
    if facts.kind is Kind.OURS and facts.deferrable and not (facts.has_trigger or facts.reschedules):
        yield "deferrable=True without a job_trigger: it waits in its worker (or use ResumePolicy(wait='reschedule'))"
    if facts.kind in {Kind.AIRFLOWS, Kind.JOB} and facts.deferrable:
        yield "deferrable=True in its own way: after a failed trigger a retry submits another job"
    if facts.kind is Kind.OURS and not facts.durable:
        yield "durable=False: every attempt submits a job"
    yield from _limits(facts)


def _limits(facts: TaskFacts) -> Iterator[str]:
    """What there is nothing to be done about, or not by the setting."""
    if facts.kind is Kind.REQUEST:
        yield "it waits for no job: a retry sends its request again"
    if facts.cannot_resume is not None:
        yield f"it does not resume: {facts.cannot_resume}"
    if facts.doubt is not None:
        yield f"whether it resumes is seen only when it runs: {facts.doubt}"
    if facts.left_alone is not None:
        yield f"not upgraded: {facts.left_alone}"
    elif facts.would_not is not None and facts.kind in {Kind.AIRFLOWS, Kind.JOB}:
        yield f"[airflow_resume] upgrade would leave it alone: {facts.would_not}"


def _is_shorter(timeout: timedelta | None, job: timedelta | None) -> bool:
    return timeout is not None and job is not None and timeout < job


def remedy(facts: TaskFacts) -> str:
    """The line of code or the setting with which there is only one job; empty if none is needed or known."""
    if facts.kind is Kind.OURS:
        if not facts.durable:
            return "Remove durable=False."
        write = facts.advice or "Write a find_job, or submission_is_idempotent = True: docs/jobs.md."
        return "" if facts.closes_window else write
    reasons = (facts.left_alone, facts.would_not, facts.cannot_resume)
    known = {Kind.AIRFLOWS, Kind.JOB, *({Kind.REATTACHES} if facts.item is not None else ())}
    if facts.kind not in known or any(reason is not None for reason in reasons):
        return ""
    if facts.advice or facts.item is not None:
        return facts.advice if facts.item is None else f"[airflow_resume] upgrade = {facts.item}"
    if facts.kind is Kind.AIRFLOWS:
        return f"class {facts.operator}(ResumableJobMixin, {facts.operator}): docs/providers.md."
    how = f"class {facts.operator}(ProviderJob, {facts.operator})"
    return f"{how}, see 'Write a recipe in ten minutes': docs/providers.md."


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


def level(facts: TaskFacts) -> Level:
    """An error where an event leads to two jobs; a warning where there is one, or where nobody looks after a job."""
    found = set(effects(facts).values())
    if Effect.DUPLICATES in found:
        return Level.ERROR
    return Level.WARNING if warnings(facts) or Effect.OLD_JOB in found else Level.OK


def table(rows: Sequence[TaskFacts]) -> list[tuple[str, ...]]:
    """A row for each: the kind, what differs from the default, and the effect of each event."""
    return [(facts.kind.value, _said(facts), *(effect.value for effect in effects(facts).values())) for facts in rows]


def _said(facts: TaskFacts) -> str:
    words = {
        "retries=0": not facts.retries,
        "deferrable": facts.deferrable,
        "job_trigger": facts.has_trigger,
        "finds its job": facts.closes_window,
        "durable=False": not facts.durable,
        "own on_kill": facts.cancels_on_kill,
        "cancel_on shutdown": facts.ends_on_deploy,
    }
    return ", ".join(word for word, is_so in words.items() if is_so)
