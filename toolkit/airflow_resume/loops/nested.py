"""The hold on a loop inside an element of another one: a level of the same record, and no store call of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_resume.attempt import Attempt
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.loops.alarm import Alarm
from airflow_resume.loops.keeper import Keeper
from airflow_resume.loops.ledger import Ledger
from airflow_resume.loops.opening import UNREADABLE, decide_opening, inner_facts_of, opening_error
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.record import Level
from airflow_resume.loops.room import SPARE
from airflow_resume.loops.session import started_over, take_up_age

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

    from airflow_resume.loops.session import Session


log = logging.getLogger(__name__)

MANY = 8
"""Loops inside an element are kept until it is done. From so many on it is seen to that there is room for another."""


class Nested:
    """Opened when made.

    Args:
        plan: of the inner loop.
        outer: the hold on the loop around it.
        before: the position of the element of the outer loop.

    Raises:
        NameInUseError: the element has a loop of this name already.
        LoopError: as the decision has it.
    """

    def __init__(self, plan: Plan[Any], outer: Session | Nested, before: JsonValue) -> None:
        self._name, self._outer = plan.name, outer
        self.seconds: float | None = None
        """As `Session.seconds`; a loop inside another one writes nothing by itself."""
        self.attempt: Attempt = outer.attempt
        self.keeper: Keeper = outer.keeper
        self.alarm: Alarm = outer.alarm
        self.path: list[JsonValue] = [*outer.path, before, plan.name]
        self.changes: Sequence[str] = ()
        self.inner_at: datetime | None = outer.inner_at
        left = outer.ledger.inner_left(plan.name)
        position = plan.source.first()
        if left is None:
            plan.source.recall(position, None)
        level = Level(kind=plan.source.kind, fp=plan.definition.fp, pos=position, total=plan.source.total(position))
        if left is None:
            self.opening = decide_opening("nothing", plan.policy)
        else:
            left = left.with_age(self.inner_at)
            facts = inner_facts_of(left, plan.source, definition=plan.definition, now=plan.now())
            facts = replace(facts, retried=self.attempt.has_identity)  # it is cleared with the loop around it
            self.opening, self.changes = decide_opening(facts, plan.policy), facts.changes
            if facts.damaged is not None and self.opening in UNREADABLE:
                damage = outer.unreadable(f"in the loop {plan.name!r}, {facts.damaged}")
                if self.opening.fails:
                    raise damage
                log.warning("Loop %r: %s", plan.name, damage)
            elif self.opening.fails:
                raise opening_error(self.opening, plan.name, left, facts, is_task=self.attempt.has_identity)
            kept: dict[str, Any] = {"kind": level.kind, "fp": level.fp}
            if not self.opening.keeps_position:
                plan.source.recall(position, None)
                kept |= started_over(position)
            level = left.model_copy(update=kept)
        place = f"{outer.ledger.place}/{plan.name}"
        if left is None and outer.ledger.inner_count >= MANY:
            self.check_room(len(level.model_dump_json()), SPARE, f"the loop {place!r}")
        take_up_age(level, plan.source)
        self.ledger: Ledger = Ledger(place, plan.source, level, now=plan.now)
        self.ledger.growth.check_room = self.check_room
        outer.ledger.enter(plan.name, self.ledger)

    def check_room(self, more: int, left: int, what: str) -> None:
        """As `Session.check_room`: it is the same record."""
        self._outer.check_room(more, left, what)

    def unreadable(self, why: str) -> UnreadableRecordError:
        """As `Session.unreadable`: it is the same record."""
        return self._outer.unreadable(why)

    @property
    def stop_asked(self) -> bool:
        """Whether the task was told to stop."""
        return self._outer.stop_asked

    def stop(self, where: str) -> NoReturn:
        """Save all loops, and leave this one; the error leaves those around it as well."""
        self._outer.stop(where)

    def finished(self, now: float) -> bool:
        """The source is exhausted; whether to flush. Nothing is lost if it is not known: the element is not done."""
        return self.keeper.note(now)

    def close(self, error: BaseException | None) -> None:
        """Let the loop be entered again after an error. What is acked is written with the outermost loop."""
        if error is not None:
            self._outer.ledger.leave(self._name, self.ledger)
