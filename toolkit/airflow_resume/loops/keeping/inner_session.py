"""The session of a loop inside an element of another one: a level of the same record. It makes no store call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_resume.errors import UnreadableRecordError
from airflow_resume.loops.keeping.claim import started_over, take_up_age
from airflow_resume.loops.keeping.ledger import Ledger
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.keeping.room import SPARE
from airflow_resume.loops.loop_record import Level
from airflow_resume.loops.opening import UNREADABLE, Opening, decide_opening, inner_facts_of, opening_error
from airflow_resume.loops.plan import Plan
from airflow_resume.shown import get_logger
from airflow_resume.values import fingerprint

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Self

log = get_logger(__name__)

ELEMENT_DIGITS = 8
"""Of the fingerprint of the outer element. Two elements that have the same place differ in it."""
MANY = 8
"""Levels of inner loops are kept until their element is done. From this number on, the room for another is checked."""


class InnerSession(LoopSession):
    """The session of a loop inside an element of another one. Made by `open`.

    It has all attributes of a `LoopSession`, most of them shared with the outer session.

    Args:
        plan: of the inner loop.
        outer: the session of the loop around it.
        path: of the loop.
        decision: the decision at the opening, and how the source has changed.
        ledger: of the loop.
    """

    def __init__(
        self,
        plan: Plan[Any],
        outer: LoopSession,
        path: list[JsonValue],
        decision: tuple[Opening, Sequence[str]],
        ledger: Ledger,
    ) -> None:
        self._name, self._outer, self.path, self.ledger = plan.name, outer, path, ledger
        self.opening, self.changes = decision
        self.seconds: float | None = None  # it writes nothing by itself
        self.attempt, self.keeper, self.inner_at = outer.attempt, outer.keeper, outer.inner_at
        self.alarm, self.stop_request = outer.alarm, outer.stop_request

    @classmethod
    def open(cls, plan: Plan[Any], outer: LoopSession, identity: list[JsonValue]) -> Self:
        """Decide how to begin, from the level of this loop in the record of the outermost loop.

        Args:
            plan: of the inner loop.
            outer: the session of the loop around it.
            identity: what identifies the element of the outer loop.

        Raises:
            UsageError: the element has a loop of this name already.
            LoopError: the decision is to fail.
        """
        saved, is_task = outer.ledger.inner.level_of(plan.name), outer.attempt.has_identity
        position, place = plan.source.first(), f"{outer.ledger.place}/{plan.name}"
        element = fingerprint(identity, length=ELEMENT_DIGITS)
        if saved is not None and saved.element not in {None, element}:
            log.warning("Loop %r: the element around it is another one now, so it starts over", place)
            saved = None
        if saved is None:
            plan.source.recall(position, None)
        level = Level(
            kind=plan.source.kind,
            fp=plan.definition.fp,
            pos=position,
            total=plan.source.total(position),
            element=element,
        )
        opening = decide_opening("nothing", plan.policy)
        changes: Sequence[str] = ()
        if saved is not None:
            saved = saved.with_age(outer.inner_at)
            facts = inner_facts_of(saved, plan.source, definition=plan.definition, now=plan.now())
            facts = replace(facts, retried=is_task)  # it is cleared together with the loop around it
            opening, changes = decide_opening(facts, plan.policy), facts.changes
            if facts.damaged is not None and opening in UNREADABLE:
                damage = outer.unreadable(f"in the loop {plan.name!r}, {facts.damaged}")
                if opening.fails:
                    raise damage
                log.warning("Loop %r: %s", plan.name, damage)
            elif opening.fails:
                raise opening_error(opening, plan.name, saved, facts, is_task=is_task)
            if not opening.keeps_position:
                plan.source.recall(position, None)
                saved = saved.changed(**started_over(position))
            level = saved.changed(kind=level.kind, fp=level.fp, element=element)
        elif len(outer.ledger.inner) >= MANY:
            outer.check_room(len(level.model_dump_json()), SPARE, f"the loop {place!r}")
        take_up_age(level, plan.source)
        ledger = Ledger(place, plan.source, level, now=plan.now)
        ledger.growth.measure_with(outer.check_room)
        outer.ledger.inner.begin(plan.name, ledger)
        return cls(plan, outer, [*outer.path, *identity, plan.name], (opening, changes), ledger)

    def check_room(self, more: int, spare: int, what: str) -> None:
        """Check that the record of the outermost loop may grow, as `room.check_room` does."""
        self._outer.check_room(more, spare, what)

    def unreadable(self, why: str) -> UnreadableRecordError:
        """The error for the record of the outermost loop."""
        return self._outer.unreadable(why)

    def stop(self, where: str) -> NoReturn:
        """Save all loops, and leave this one; the error leaves those around it as well."""
        self._outer.stop(where)

    def finished(self, now: float) -> bool:
        """Note that the source has no more elements. Returns whether to flush, for which this alone is no reason."""
        return self.keeper.note(now)

    def left_early(self, *, has_work: bool) -> None:
        """Work that is not acked may be committed when the element around it is acked, and not before."""
        if has_work:
            ledger = self._outer.ledger
            inner = ledger.inner
            self.keeper.leave_open(self._name, lambda: ledger.inner is inner)

    def close(self, error: BaseException | None) -> None:
        """After an error, let the loop run again. What is acked is written with the outermost loop."""
        if error is not None:
            self._outer.ledger.inner.end(self._name, self.ledger)
