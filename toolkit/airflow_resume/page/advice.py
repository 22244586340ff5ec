"""What to do about a record in trouble: a table by its kind and state, as in the runbook of docs/operating.md."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[tuple[str, str], str] = {
    ("job", "lost"): (
        "Look in the job system for a job of this time. If there is one, adopt it; if there is none, forget the job."
        " Then clear the task."
    ),
    ("job", "left alone"): (
        'A clear ends this job first and submits another one, or waits for it with on_clear="resume".'
        " Clear the task, or end the job in its system."
    ),
    ("job", "unknown"): "The task waits until unknown_timeout. Look at the job in its system, and at the task's log.",
    (
        "job",
        "submitting",
    ): "The submit hangs in the job system. See the task's log; nothing is to be changed meanwhile.",
    ("loop", "stalled"): "See the task's log. If it stays so, mark the task as failed, and clear it.",
    ("loop", "stopped"): (
        'A clear starts over, unless on_clear="resume". To continue where it was, choose Resume, then clear the task.'
        " If one element is at fault, choose Skip one element."
    ),
    ("loop", "between tries"): (
        "If attempts die at one position without an error, one element may end the process, as when it is too large:"
        " Skip one element passes over it."
    ),
    ("mark", "at work"): "Start a run of the task that owns it: it begins at the mark, and so loads what is missing.",
    ("", "unreadable"): "A newer release wrote it, or it was edited. Upgrade, or delete its key under State Store.",
    ("", "encrypted"): (
        "The page cannot decrypt it: only its task can. To see records here, leave out [airflow_resume] backend_codec."
    ),
    ("", "elsewhere"): "Raise [airflow_resume] backend_inline_bytes, so that records stay in Airflow.",
}
"""By the noun and the state; without a noun, for every kind."""


def advice_for(noun: str, state: str, trouble: str | None) -> str | None:
    """What to do; None if nothing is wrong, or nothing is known."""
    if trouble is None:
        return None
    return ADVICE.get((noun, state)) or ADVICE.get(("", state))
