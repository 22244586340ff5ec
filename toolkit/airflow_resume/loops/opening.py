"""The decision at the opening of a loop: continue, start over, or refuse.

`decide_opening` is pure and total. Its facts come from the record and from the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_flag, check_whole
from airflow_resume.attempt import Attempt, Cleared, how_to_start_over
from airflow_resume.errors import LoopError, SourceChangedError, StalledError, TokenExpiredError
from airflow_resume.loops.loop_record import Level, LoopRecord
from airflow_resume.loops.sources.source import OnExpired, Source
from airflow_resume.shown import short_repr

OnClear = Literal["restart", "resume"]
OnChange = Literal["restart", "fail", "resume"]
OnUnreadable = Literal["fail", "restart"]
OnDone = Literal["nothing", "restart"]

MAX_REASON = 200
"""Characters of a source's error about a damaged position that are quoted."""


class Opening(str, Enum):
    """What to do at the opening. The log has the value as its name."""

    START = "started"
    RESUME = "resumed"
    RESTART_ASKED = "started over, as restart=True says"
    RESTART_BY_HAND = "started over, as a person has asked"
    RESTART_DONE = "started over, as an earlier run was done"
    RESTART_CLEARED = "started over, as the task was cleared"
    RESTART_CHANGED = "started over, as the source changed"
    RESTART_EXPIRED = "started over, as the saved position is too old"
    RESTART_UNREADABLE = "started over, as the record cannot be read"
    SKIP_STALLED = "resumed after an element at which attempts died"
    FAIL_CHANGED = "fail, as the source changed"
    FAIL_EXPIRED = "fail, as the saved position is too old"
    FAIL_UNREADABLE = "fail, as the record cannot be read"
    FAIL_STALLED = "fail, as attempts died at the same element"
    NOTHING_LEFT = "nothing left to do"

    @property
    def keeps_position(self) -> bool:
        """Whether the loop continues at the saved position."""
        return self in {Opening.RESUME, Opening.SKIP_STALLED, Opening.NOTHING_LEFT}

    @property
    def fails(self) -> bool:
        """Whether an error is raised and nothing is touched."""
        return self.name.startswith("FAIL")


UNREADABLE = {Opening.FAIL_UNREADABLE, Opening.RESTART_UNREADABLE}


@dataclass(frozen=True, kw_only=True)
class OpeningPolicy:
    """What a user chose for the opening; see `checkpoint`."""

    on_clear: OnClear = "restart"
    on_change: OnChange = "restart"
    on_unreadable: OnUnreadable = "fail"
    max_stalls: int | None = 3
    skip_stalled: bool = False
    on_expired: OnExpired = "restart"
    max_age: timedelta | None = None
    on_done: OnDone = "nothing"
    restart: bool = False

    def __post_init__(self) -> None:
        check_choice("on_clear", self.on_clear, OnClear)
        check_choice("on_change", self.on_change, OnChange)
        check_choice("on_unreadable", self.on_unreadable, OnUnreadable)
        check_choice("on_done", self.on_done, OnDone)
        check_flag("restart", self.restart)
        if self.max_stalls is not None:
            check_whole("max_stalls", self.max_stalls, least=1)


@dataclass(frozen=True, kw_only=True)
class SavedFacts:
    """The facts about what an earlier attempt saved.

    Args:
        cleared: whether the task was cleared since.
        same_kind: whether the source is of the same kind.
        changes: what else about the source has changed.
        age: how long ago the page token (or the like) of the saved position was received; 0 if it does not expire.
        stalls: how many attempts in a row died at the saved position.
        done: whether the loop was done.
        damaged: why no attempt can have saved this position or state; None if one can have.
        retried: whether this task instance saved the position and was not cleared since. Then `restart=True` has
            already had its effect.
        start_over: whether a person has asked for a new start by hand.
    """

    cleared: Cleared = Cleared.NO
    same_kind: bool = True
    changes: Sequence[str] = ()
    age: timedelta = timedelta(0)
    stalls: int = 0
    done: bool = False
    damaged: str | None = None
    retried: bool = False
    start_over: bool = False


def decide_opening(facts: SavedFacts | Literal["nothing", "unreadable"], policy: OpeningPolicy) -> Opening:
    """What to do with what an earlier attempt saved."""
    if facts == "nothing":
        return Opening.START
    if isinstance(facts, SavedFacts) and facts.start_over:
        return Opening.RESTART_BY_HAND
    if policy.restart and not (isinstance(facts, SavedFacts) and facts.retried and facts.damaged is None):
        return Opening.RESTART_ASKED
    return _decide_unreadable(policy) if facts == "unreadable" else _decide_saved(facts, policy)


def _decide_saved(facts: SavedFacts, policy: OpeningPolicy) -> Opening:
    if policy.on_clear == "restart" and facts.cleared is Cleared.YES:
        return Opening.RESTART_CLEARED
    if facts.damaged is not None:
        return _decide_unreadable(policy)
    if facts.done and policy.on_done == "restart":
        return Opening.RESTART_DONE
    if facts.changes or not facts.same_kind:
        return _decide_changed(facts, policy)
    return _decide_unchanged(facts, policy)


def _decide_unreadable(policy: OpeningPolicy) -> Opening:
    return Opening.RESTART_UNREADABLE if policy.on_unreadable == "restart" else Opening.FAIL_UNREADABLE


def _decide_changed(facts: SavedFacts, policy: OpeningPolicy) -> Opening:
    if policy.on_change == "restart":
        return Opening.RESTART_CHANGED
    # A position of one kind of source never means anything in another kind.
    if policy.on_change == "fail" or not facts.same_kind:
        return Opening.FAIL_CHANGED
    return _decide_unchanged(facts, policy)


def _decide_unchanged(facts: SavedFacts, policy: OpeningPolicy) -> Opening:
    if facts.done:
        return Opening.NOTHING_LEFT
    if policy.max_age is not None and facts.age > policy.max_age:
        return Opening.RESTART_EXPIRED if policy.on_expired == "restart" else Opening.FAIL_EXPIRED
    if policy.max_stalls is not None and facts.stalls >= policy.max_stalls:
        return Opening.SKIP_STALLED if policy.skip_stalled else Opening.FAIL_STALLED
    return Opening.RESUME


# --- the facts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a position depends on: the kind of the source, and a fingerprint of every field."""

    kind: str
    fp: dict[str, str]

    def changes(self, level: Level) -> list[str]:
        """The names of the fields in which the saved level differs."""
        names = sorted(self.fp.keys() | level.fp.keys())
        return [name for name in names if self.fp.get(name) != level.fp.get(name)]


def cleared_of(record: LoopRecord, attempt: Attempt) -> Cleared:
    """Whether the task was cleared since the loop was last opened."""
    return attempt.cleared_since(record.at.epoch, record.at.try_number, ended=record.done)


def stalls_of(record: LoopRecord, attempt: Attempt) -> int:
    """How many attempts in a row died at the saved position; after a clear the count starts again."""
    if record.set_by_hand is not None:
        return 0
    came_further, cleared = record.where() != record.at.where, cleared_of(record, attempt) is Cleared.YES
    if came_further or cleared or record.at.left:
        return 0
    return record.at.stalls + 1


def facts_of(
    record: LoopRecord, source: Source[Any], *, attempt: Attempt, definition: Definition, now: datetime
) -> SavedFacts:
    """The facts about the outermost loop."""
    level = inner_facts_of(record, source, definition=definition, now=now)
    if record.set_by_hand is not None:  # it was set for the next attempt, also if that comes from a clear
        return replace(level, retried=True, start_over=record.set_by_hand.start_over is True)
    cleared = cleared_of(record, attempt)
    same_run = attempt.has_identity and record.at.epoch.run_started == attempt.epoch.run_started
    retried = same_run and cleared is not Cleared.YES
    return replace(level, cleared=cleared, stalls=stalls_of(record, attempt), retried=retried)


def _fewer_than_before(level: Level, source: Source[Any]) -> Sequence[str]:
    """Whether a list has shrunk. A record of release 0.1 shows nothing else, as it has only the number of elements."""
    if level.seen is not None or level.total is None or not level.n or "batches" not in level.kind:
        return ()
    total = source.total(level.pos)
    if total is None or total >= level.total:
        return ()
    return [f"it had {level.total} {source.noun}s, and has {total} now"]


def inner_facts_of(level: Level, source: Source[Any], *, definition: Definition, now: datetime) -> SavedFacts:
    """The facts about a loop inside another one, which was neither cleared nor opened by itself.

    Args:
        level: as the record has it.
        source: is asked about the position, if that is of its kind and not damaged.
        definition: of the source now.
        now: the time.
    """
    same_kind = definition.kind == level.kind
    damaged = _damage(level, source if same_kind else None)
    if not same_kind or damaged is not None:
        return SavedFacts(
            same_kind=same_kind,
            changes=[*([] if same_kind else ["source"]), *definition.changes(level)],
            done=level.done,
            damaged=damaged,
        )
    received = level.pos_at if source.expires(level.pos) else None
    changes = source.changes(level.pos) or _fewer_than_before(level, source)
    return SavedFacts(
        changes=[*definition.changes(level), *changes],
        # The clock may have been set back since.
        age=timedelta(0) if received is None else max((source.age_now() or now) - received, timedelta(0)),
        done=level.done,
    )


def _damage(level: Level, source: Source[Any] | None) -> str | None:
    """Why no attempt can have saved the position, what was saved with it, or the state; None if one can.

    The source restores what it had saved with the position.
    """
    what = "pos"
    try:
        if source is not None:
            source.check(level.pos)
            what = "seen"
            source.recall(level.pos, level.seen)
            what = "ahead"
            _check_ahead(level, source)
        what = "state"
        for value in level.state.values():
            values.decode(value)
    except Exception as error:  # noqa: BLE001  a user's source may raise any error, and so may a decoder
        return f"its {what} was changed by hand or damaged ({type(error).__name__}: {str(error)[:MAX_REASON]})"
    return None


def _check_ahead(level: Level, source: Source[Any]) -> None:
    """See that the run lengths of what is done ahead agree with the position after it, which is saved as well."""
    ahead = level.ahead
    if ahead is None or not ahead.runs or ahead.by != source.numbering():
        return
    source.check(ahead.far)
    steps = source.steps(level.pos, ahead.far)
    if steps is not None and steps != sum(ahead.runs):
        raise ValueError(f"{sum(ahead.runs)} elements do not reach {short_repr(ahead.far)}")


# --- what is raised -------------------------------------------------------------------------------------------

_UNTOUCHED = "Nothing was touched."


def opening_error(opening: Opening, place: str, level: Level, facts: SavedFacts, *, is_task: bool) -> LoopError:
    """The error for a decision to fail; `is_task`: whether a person can clear the task."""
    start_over = how_to_start_over(is_task=is_task)
    stands = f"The loop {place!r} stands at {'its start' if level.pos is None else short_repr(level.pos, most=250)}"
    if opening is Opening.FAIL_EXPIRED:
        return TokenExpiredError(
            f"{stands}, a position that was received {facts.age} ago and has expired. {_UNTOUCHED}",
            f"To start over, {start_over} (on_expired='restart' does that by itself).",
            loop=place,
            position=level.pos,
            age=facts.age,
        )
    if opening is Opening.FAIL_STALLED:
        return StalledError(
            f"{stands}, and the last {facts.stalls} attempts died there without an error, e.g. out of memory or by a"
            f" crash in a library. {_UNTOUCHED}",
            "See what is special about this element; skip=Skip(stalled=True) skips it, and max_stalls=None tries it"
            " any number of times.",
            loop=place,
            position=level.pos,
            attempts=facts.stalls,
        )
    return SourceChangedError(
        f"{stands}, and its source has changed: {', '.join(facts.changes)}. {_UNTOUCHED}",
        f"Undo the change, or {start_over} to start over (on_change='restart' does that by itself).",
        loop=place,
        position=level.pos,
        changes=tuple(facts.changes),
    )
