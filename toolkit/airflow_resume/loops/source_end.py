"""Whether a loop is done when its source has no more elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import IncompleteLoopError
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.plan import Plan
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)


def check_source_end(
    plan: Plan[Any], session: LoopSession, unacked: Sequence[tuple[int, JsonValue, JsonValue]]
) -> None:
    """See that the source may end here.

    Args:
        plan: of the loop.
        session: with its record.
        unacked: the elements that were delivered and are not acked, each with the positions before and after it.

    Raises:
        IncompleteLoopError: it never had an element, or less has come than it had announced, and `on_empty` or
            `on_short` does not accept that.
    """
    ledger, source = session.ledger, plan.source
    if plan.on_empty == "fail" and (ledger.counted().rows == 0 or (ledger.count == 0 and not unacked)):
        raise IncompleteLoopError(
            f"The source of the loop {plan.name!r} had no {source.noun} at all.",
            "If that may happen, leave on_empty='fail' out; if not, see what the fetch returned.",
            problem="empty",
            loop=plan.name,
        )
    position = unacked[-1][2] if unacked else ledger.frontier.position
    short, short_before = source.shortfall(position), ledger.short
    if short is None and ledger.frontier.next_number == 0:  # nothing came, so what was found before holds
        short = short_before
    ledger.short = short
    if short is None:
        return
    what = f"The source of the loop {plan.name!r} ended after {short} that it had announced"
    if plan.on_short == "warn" or (plan.on_short == "retry" and short == short_before):
        log.warning("%s; the end is accepted", what)
        return
    session.keeper.is_dirty = True
    start_over = how_to_start_over(is_task=session.attempt.has_identity)
    raise IncompleteLoopError(
        f"{what}.",
        f"To start over, {start_over}; or say on_short='warn' if that may happen."
        if plan.on_short == "fail"
        else "A retry asks again, and accepts the end if nothing more has come; on_short='warn' accepts it at once, and"
        " 'fail' never does.",
        problem="short",
        loop=plan.name,
    )
