"""Where a job is waited for, and what follows a look at it. `pytest -s` prints the tables."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import UsageError
from airflow_resume.jobs.looks import (
    AfterLook,
    LookFacts,
    Place,
    WaitFacts,
    after_look,
    pause_after,
    place_of_wait,
    refuse,
)

BY_RESCHEDULE = ResumePolicy(wait="reschedule")

PLACES: dict[str, tuple[WaitFacts, Place, Place]] = {
    "a function, or an operator": (WaitFacts(), Place.WORKER, Place.RESCHEDULE),
    "it is deferrable": (WaitFacts(defers=True), Place.TRIGGERER, Place.TWO_PLACES),
    "it waits by itself": (WaitFacts(waits_by_itself=True), Place.WORKER, Place.OWN_WAIT),
    "deferrable, waits by itself": (
        WaitFacts(defers=True, waits_by_itself=True),
        Place.TRIGGERER,
        Place.TWO_PLACES,
    ),
    "the record is not kept": (WaitFacts(is_kept=False), Place.WORKER, Place.NOT_KEPT),
    "a script": (WaitFacts(is_task=False), Place.WORKER, Place.WORKER_INSTEAD),
    "a script without a file": (WaitFacts(is_task=False, is_kept=False), Place.WORKER, Place.WORKER_INSTEAD),
    "a script that waits by itself": (WaitFacts(is_task=False, waits_by_itself=True), Place.WORKER, Place.OWN_WAIT),
}


@pytest.mark.parametrize(("facts", "by_default", "by_reschedule"), PLACES.values(), ids=PLACES)
def test_the_place_of_the_wait(
    facts: WaitFacts, by_default: Place, by_reschedule: Place, request: pytest.FixtureRequest
) -> None:
    print(f"{request.node.callspec.id:35} worker: {by_default.value:12} reschedule: {by_reschedule.value}")
    assert place_of_wait(facts, ResumePolicy()) is by_default
    assert place_of_wait(facts, BY_RESCHEDULE) is by_reschedule


def test_every_combination_has_a_place_and_only_what_contradicts_itself_is_refused() -> None:
    for values in product([False, True], repeat=4):
        facts = WaitFacts(**dict(zip(("defers", "waits_by_itself", "is_kept", "is_task"), values, strict=True)))
        refuse(place_of_wait(facts, ResumePolicy()), who="Train")  # a policy of before is never refused
        place = place_of_wait(facts, BY_RESCHEDULE)
        if place.value.startswith("refused"):
            with pytest.raises(UsageError, match="Train"):
                refuse(place, who="Train")
        else:
            refuse(place, who="Train")
            assert True not in {facts.defers, facts.waits_by_itself}
            assert (place is Place.RESCHEDULE) == facts.is_task


MINUTE = timedelta(minutes=1)
LIMITED = ResumePolicy(
    poll=PollPolicy(timeout=60 * MINUTE, max_consecutive_errors=3), unknown_timeout=10 * MINUTE, wait="reschedule"
)

LOOKS: dict[str, tuple[LookFacts, AfterLook]] = {
    "active": (LookFacts(waited=MINUTE), AfterLook.COME_BACK),
    "active, at the time-out": (LookFacts(waited=60 * MINUTE), AfterLook.FAIL_TIMEOUT),
    "unknown, for the first time": (LookFacts(waited=MINUTE, unknown_for=timedelta(0)), AfterLook.COME_BACK),
    "unknown for too long": (LookFacts(waited=MINUTE, unknown_for=10 * MINUTE), AfterLook.FAIL_UNKNOWN),
    "unknown for too long, at the time-out": (
        LookFacts(waited=60 * MINUTE, unknown_for=10 * MINUTE),
        AfterLook.FAIL_UNKNOWN,
    ),
    "unanswered": (LookFacts(waited=MINUTE, unanswered=2), AfterLook.COME_BACK),
    "unanswered, at the time-out": (LookFacts(waited=60 * MINUTE, unanswered=1), AfterLook.FAIL_TIMEOUT),
    "unanswered too often": (LookFacts(waited=MINUTE, unanswered=3), AfterLook.FAIL_UNANSWERED),
    "unanswered too often, at the time-out": (
        LookFacts(waited=60 * MINUTE, unanswered=3),
        AfterLook.FAIL_UNANSWERED,
    ),
}


@pytest.mark.parametrize(("facts", "expected"), LOOKS.values(), ids=LOOKS)
def test_what_follows_a_look(facts: LookFacts, expected: AfterLook, request: pytest.FixtureRequest) -> None:
    print(f"{request.node.callspec.id:40} -> {expected.value}")
    assert after_look(facts, LIMITED) is expected


def test_without_a_time_out_there_is_no_end() -> None:
    assert after_look(LookFacts(waited=timedelta(days=9_999)), ResumePolicy()) is AfterLook.COME_BACK


# --- pauses ---------------------------------------------------------------------------------------------------


def pauses_of(policy: PollPolicy, *, shortest: float, looks: int) -> list[float]:
    """The pauses of so many looks, in seconds, if every look comes exactly in time."""
    waited, pauses = timedelta(0), []
    for _ in range(looks):
        pause = pause_after(waited, policy, shortest=timedelta(seconds=shortest), chance=0)
        pauses.append(round(pause.total_seconds(), 3))
        waited += pause
    return pauses


def test_pauses_grow_as_in_a_worker_although_no_number_of_looks_is_kept() -> None:
    assert pauses_of(PollPolicy(), shortest=0, looks=8) == [5, 7.5, 11.25, 16.875, 25.312, 37.969, 56.953, 60]


def test_no_pause_is_shorter_than_the_shortest() -> None:
    assert pauses_of(PollPolicy(), shortest=15, looks=5) == [15, 15, 20, 30, 45]
    second = timedelta(seconds=1)
    assert pauses_of(PollPolicy(interval=second, max_interval=second), shortest=15, looks=2) == [15, 15]


def test_a_pause_may_be_constant() -> None:
    assert pauses_of(PollPolicy(backoff=1, max_interval=timedelta(hours=1)), shortest=0, looks=3) == [5, 5, 5]


@pytest.mark.parametrize("backoff", [1e300, 1.0])
def test_no_pause_overflows(backoff: float) -> None:
    policy = PollPolicy(backoff=backoff, max_interval=timedelta(seconds=60))
    long = pause_after(timedelta(days=9_999), policy, shortest=timedelta(0), chance=0)
    assert long == timedelta(seconds=60 if backoff > 1 else 5)


def test_jitter_lengthens_a_pause_also_the_shortest() -> None:
    policy: Any = PollPolicy(jitter=0.1)
    assert pause_after(timedelta(0), policy, shortest=timedelta(seconds=15), chance=0.5) == timedelta(seconds=15.75)


def test_a_choice_that_does_not_exist_is_refused_and_one_that_people_look_for_is_explained() -> None:
    with pytest.raises(ValueError, match=r"wait='later' is not a choice\.\nTake one of 'worker', 'reschedule'"):
        ResumePolicy(wait="later")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"wait='reschedule'.*ResumableJobMixin.*deferrable = True"):
        ResumePolicy(wait="triggerer")  # type: ignore[arg-type]
