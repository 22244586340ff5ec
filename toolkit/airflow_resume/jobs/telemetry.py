"""The counters and the span of Airflow's own mixin, with the same names, so that dashboards keep working."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_resume import metrics
from airflow_resume.jobs.decide import Step

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_COUNTERS = {
    Step.RECONNECT: "reconnect_success",
    Step.RETURN_SAVED: "already_succeeded",
    Step.FETCH_RESULT: "already_succeeded",
}


def counters_of(step: Step, *, had_job: bool) -> list[str]:
    """The counters that the decision of an attempt increments."""
    attempts = ["reconnect_attempt"] if had_job else []
    if step in {Step.SUBMIT, Step.SUBMIT_AGAIN}:
        return [*attempts, "terminal_resubmit" if had_job else "fresh_submit"]
    return [*attempts, _COUNTERS[step]] if step in _COUNTERS else attempts


def count(name: str, tags: Mapping[str, str]) -> None:
    """Increment the counter `resumable_job.<name>`."""
    metrics.count(f"resumable_job.{name}", tags)


@contextmanager
def decision_span(key: str, tags: Mapping[str, str]) -> Iterator[Span]:
    """The span of the decision. It ends before anything is submitted or waited for."""
    from opentelemetry import trace

    with trace.get_tracer(__name__).start_as_current_span("resumable_job.resume_decision") as span:
        span.set_attributes({"resumable.external_id_key": key, **tags})
        yield span
