"""The decision at the opening of a loop: go on, start over, or refuse.

`decide_opening` is pure and total. The facts it is given are asked of the source, which takes up what it kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal

from airflow_resume import values
from airflow_resume.arguments import check_choice
from airflow_resume.attempt import Attempt, Cleared, how_to_start_over
from airflow_resume.errors import LoopError, SourceChangedError, StalledError, TokenExpiredError
from airflow_resume.loops.record import Level, LoopRecord
from airflow_resume.loops.source import OnExpired, Source

OnClear = Literal["restart", "resume"]
OnChange = Literal["restart", "fail", "resume"]
OnUnreadable = Literal["fail", "restart"]
OnDone = Literal["nothing", "restart"]


MAX_REASON = 200
"""Characters of what a source says about a damaged position."""


class Opening(str, Enum):
    """What to do. The value is how the log names it."""

    START = "started"
    RESUME = "resumed"
    RESTART_ASKED = "started over, as restart=True says"
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
        """Whether the saved position counts."""
        return self in {Opening.RESUME, Opening.SKIP_STALLED, Opening.NOTHING_LEFT}

    @property
    def fails(self) -> bool:
        """Whether nothing is touched and an error is raised."""
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
        if not isinstance(self.restart, bool):
            raise TypeError(f"restart={self.restart!r} must be True or False")
        if self.max_stalls is not None and self.max_stalls < 1:
            raise ValueError(f"max_stalls={self.max_stalls} must be at least 1, or None for no limit")


@dataclass(frozen=True, kw_only=True)
class Left:
    """What an earlier attempt left, as far as the decision needs it.

    Args:
        cleared: whether the task was cleared since.
        same_kind: whether the source is of the same kind.
        changes: what else about the source is not as it was.
        age: of the saved position, since what it needs was received; nothing where that does not get too old.
        stalls: how many attempts in a row died at it.
        done: nothing is left to do.
        damaged: why its position or state cannot have been saved by any attempt.
        retried: whether it was left by this task instance, which was not cleared since: `restart=True` has had its way.
    """

    cleared: Cleared = Cleared.NO
    same_kind: bool = True
    changes: Sequence[str] = ()
    age: timedelta = timedelta(0)
    stalls: int = 0
    done: bool = False
    damaged: str | None = None
    retried: bool = False


def decide_opening(left: Left | Literal["nothing", "unreadable"], policy: OpeningPolicy) -> Opening:
    """What to do with what an earlier attempt left."""
    if left == "nothing":
        return Opening.START
    if policy.restart and not (isinstance(left, Left) and left.retried and left.damaged is None):
        return Opening.RESTART_ASKED
    return _decide_unreadable(policy) if left == "unreadable" else _decide_left(left, policy)


def _decide_left(left: Left, policy: OpeningPolicy) -> Opening:
    if policy.on_clear == "restart" and left.cleared is Cleared.YES:
        return Opening.RESTART_CLEARED
    if left.damaged is not None:
        return _decide_unreadable(policy)
    if left.done and policy.on_done == "restart":
        return Opening.RESTART_DONE
    if left.changes or not left.same_kind:
        return _decide_changed(left, policy)
    return _decide_unchanged(left, policy)


def _decide_unreadable(policy: OpeningPolicy) -> Opening:
    return Opening.RESTART_UNREADABLE if policy.on_unreadable == "restart" else Opening.FAIL_UNREADABLE


def _decide_changed(left: Left, policy: OpeningPolicy) -> Opening:
    if policy.on_change == "restart":
        return Opening.RESTART_CHANGED
    # No policy can make one kind of position mean something in another kind of source.
    if policy.on_change == "fail" or not left.same_kind:
        return Opening.FAIL_CHANGED
    return _decide_unchanged(left, policy)


def _decide_unchanged(left: Left, policy: OpeningPolicy) -> Opening:
    if left.done:
        return Opening.NOTHING_LEFT
    if policy.max_age is not None and left.age > policy.max_age:
        return Opening.RESTART_EXPIRED if policy.on_expired == "restart" else Opening.FAIL_EXPIRED
    if policy.max_stalls is not None and left.stalls >= policy.max_stalls:
        return Opening.SKIP_STALLED if policy.skip_stalled else Opening.FAIL_STALLED
    return Opening.RESUME


# --- the facts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a position depends on: the kind of the source, and a fingerprint of every field."""

    kind: str
    fp: dict[str, str]

    def changes(self, level: Level) -> list[str]:
        """The names of the fields in which what was saved differs."""
        names = sorted(self.fp.keys() | level.fp.keys())
        return [name for name in names if self.fp.get(name) != level.fp.get(name)]


def cleared_of(record: LoopRecord, attempt: Attempt) -> Cleared:
    """Whether the task was cleared since the loop was last opened."""
    return attempt.cleared_since(record.at.epoch, record.at.try_number, ended=record.done)


def stalls_of(record: LoopRecord, attempt: Attempt) -> int:
    """How many attempts in a row died at the saved position; a clear is somebody's wish to try again."""
    came_further, cleared = record.where() != record.at.where, cleared_of(record, attempt) is Cleared.YES
    if came_further or cleared or record.at.left:
        return 0
    return record.at.stalls + 1


def facts_of(
    record: LoopRecord, source: Source[Any], *, attempt: Attempt, definition: Definition, now: datetime
) -> Left:
    """The facts about the outermost loop."""
    level = inner_facts_of(record, source, definition=definition, now=now)
    cleared = cleared_of(record, attempt)
    same_run = attempt.has_identity and record.at.epoch.run_started == attempt.epoch.run_started
    retried = same_run and cleared is not Cleared.YES
    return replace(level, cleared=cleared, stalls=stalls_of(record, attempt), retried=retried)


def _changes(level: Level, source: Source[Any]) -> Sequence[str]:
    return source.changes(level.pos) or _fewer_than_before(level, source)


def _fewer_than_before(level: Level, source: Source[Any]) -> Sequence[str]:
    """Whether a list has shrunk since release 0.1, whose records say how many elements there were, and no more."""
    if level.seen is not None or level.total is None or not level.n or "batches" not in level.kind:
        return ()
    total = source.total(level.pos)
    if total is None or total >= level.total:
        return ()
    return [f"there were {level.total} {source.noun}s, and are {total}"]


def inner_facts_of(level: Level, source: Source[Any], *, definition: Definition, now: datetime) -> Left:
    """The facts about a loop inside another, which was neither cleared nor opened by itself.

    Args:
        level: as it stands in the record.
        source: is asked about its position, if that is one of its kind and not damaged.
        definition: of the source now.
        now: the time.
    """
    same_kind = definition.kind == level.kind
    damaged = _damage(level, source if same_kind else None)
    if not same_kind or damaged is not None:
        return Left(
            same_kind=same_kind,
            changes=[*([] if same_kind else ["source"]), *definition.changes(level)],
            done=level.done,
            damaged=damaged,
        )
    received = level.pos_at if source.expires(level.pos) else None
    return Left(
        changes=[*definition.changes(level), *_changes(level, source)],
        # The clock may have been put back since.
        age=timedelta(0) if received is None else max((source.age_now() or now) - received, timedelta(0)),
        done=level.done,
    )


def _damage(level: Level, source: Source[Any] | None) -> str | None:
    """Why the position or what was kept beside it, which the source takes up, or the state cannot have been saved."""
    what = "pos"
    try:
        if source is not None:
            source.check(level.pos)
            what = "seen"
            source.recall(level.pos, level.seen)
        what = "state"
        for value in level.state.values():
            values.decode(value)
    except Exception as error:  # noqa: BLE001  a source of one's own may say it by any, and so may a decoder
        return f"its {what} was changed by hand or damaged ({type(error).__name__}: {str(error)[:MAX_REASON]})"
    return None


# --- what is raised -------------------------------------------------------------------------------------------

_UNTOUCHED = "Nothing was touched."


def opening_error(opening: Opening, place: str, level: Level, left: Left, *, is_task: bool) -> LoopError:
    """What a decision to fail is raised as; `is_task`: a person can clear it."""
    start_over = how_to_start_over(is_task=is_task)
    stands = f"The loop {place!r} stands at {level.pos!r}"
    if opening is Opening.FAIL_EXPIRED:
        return TokenExpiredError(
            f"{stands}, a position that was received {left.age} ago, and the source keeps none for so long."
            f" {_UNTOUCHED}",
            f"To start over, {start_over} (on_expired='restart' does that by itself).",
        )
    if opening is Opening.FAIL_STALLED:
        return StalledError(
            f"{stands}, and the last {left.stalls} attempts died there without a word, e.g. out of memory or by a crash"
            f" in a library. {_UNTOUCHED}",
            "See what is special about this element; skip=Skip(stalled=True) passes over it, and max_stalls=None tries"
            " for ever.",
        )
    return SourceChangedError(
        f"{stands}, and since that was saved there changed: {', '.join(left.changes)}. {_UNTOUCHED}",
        f"Put it back, or {start_over} to start over (on_change='restart' does that by itself).",
    )
