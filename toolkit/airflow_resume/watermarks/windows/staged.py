"""The token of a window that one task has loaded and another task commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from airflow_resume.attempt import Count, Flag
from airflow_resume.errors import WatermarkInputError
from airflow_resume.stored import StoredModel
from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.marks.mark_record import WindowChanges, WindowRecord
from airflow_resume.watermarks.marks.outbox import Origin, PublishedWindow
from airflow_resume.watermarks.windows.publishing import published_window
from airflow_resume.watermarks.windows.window import Window

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from airflow_resume.attempt import Claim, Scope

T = TypeVar("T")


class StageTokenChanges(TypedDict, total=False):
    """What may change in a token, see `StageToken`."""

    tells: PublishedWindow | None


class StageToken(StoredModel):
    """A loaded window, as JSON for an XCom. It has many fields because the other task knows nothing else about it.

    Args:
        key: of the mark.
        dag_id, run_id, task_id: of the task that loaded it.
        new: how far the mark may move.
        ties: which rows at `new` are loaded.
        tells: the window to publish for consumers; None if there is nothing to publish.
        told_as: a field of older tokens, which has no meaning any more.
    """

    model_config = ConfigDict(extra="forbid")

    v: Count = 2
    key: str
    partition: JsonValue = None
    dag_id: str
    run_id: str
    task_id: str = ""
    start: JsonValue
    end: JsonValue = None
    new: JsonValue = None
    epoch: str
    base_rev: Count
    commits: Flag = True
    origin: Origin = "mark"
    ties: tuple[str, ...] | None = None
    tells: PublishedWindow | None = None
    told_as: None = Field(default=None, exclude=True)

    def changed(self, **changes: Unpack[StageTokenChanges]) -> Self:
        """The token with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    @property
    def bounds(self) -> str:
        """The bounds of the window, for messages."""
        return f"[{self.start}, {'...' if self.end is None else self.end})"

    @property
    def is_of_nothing(self) -> bool:
        """Whether nothing was new, so that there is no window to commit."""
        return not self.epoch

    @classmethod
    def read(cls, token: object, *, keys: Keys, scope: Scope) -> StageToken:
        """The token, if it belongs to this mark and run.

        Raises:
            WatermarkInputError: it does not belong to them, or is not a token.
        """
        try:
            read = cls.model_validate(token)
        except ValidationError as error:
            raise WatermarkInputError(
                f"{str(token)[:100]!r} is not what window.stage() returned.",
                "Hand it on as it is, such as by an XCom.",
                given="token",
            ) from error
        if (read.dag_id, read.run_id) != (scope.dag_id, scope.run_id):
            raise WatermarkInputError(
                f"This token was staged by the run {read.run_id!r} of {read.dag_id!r}, and this is {scope.run_id!r} of"
                f" {scope.dag_id!r}.",
                "Pull it from this run.",
                given="token",
                key=read.key,
            )
        if read.key not in {keys.mark, keys.old and keys.old.mark}:
            raise WatermarkInputError(
                f"This token is one of {read.key!r}, and this watermark is {keys.mark!r}.",
                "Pass it to the watermark that has staged it.",
                given="token",
                key=read.key,
            )
        return read if read.v > 1 else read.changed(tells=read.published_in_0_1())

    def window(self, known: WindowRecord | None, *, key: str, type: str, claim: Claim) -> WindowRecord:  # noqa: A002
        """The record of the window, for the task that commits it.

        Args:
            known: the record that this task has. It is kept if it belongs to the same window. Then this task has loaded
                the window, or an earlier attempt began to commit it.
            key: of the record.
            type: of the cursor.
            claim: of the attempt.
        """
        names = ("start", "end", "epoch", "base_rev")
        if known is not None and all(getattr(known, name) == getattr(self, name) for name in names):
            return known.changed(claim=claim)
        return WindowRecord(
            key=key,
            start=self.start,
            end=self.end,
            type=type,
            base_rev=self.base_rev,
            epoch=self.epoch,
            origin=self.origin,
            commits=self.commits,
            claim=claim,
        )

    def published_in_0_1(self) -> PublishedWindow | None:
        """The window for consumers, from a token of version 0.1."""
        to = self.new if self.commits or self.end is None else self.end
        return None if to is None else PublishedWindow(start=self.start, end=to)


def token_of(window: Window[T], reached: T | None, cursor: CursorType[T], *, key: str, scope: Scope) -> StageToken:
    """The token of a window as it was loaded.

    Args:
        window: the window that this task has loaded.
        reached: how far the mark may move; None if no row was seen.
        cursor: of the watermark.
        key: of the mark.
        scope: of the task.
    """
    names: dict[str, Any] = {
        "key": key,
        "partition": window.partition,
        "dag_id": scope.dag_id,
        "run_id": scope.run_id,
        "task_id": scope.task_id,
    }
    record, progress = window.record, window.progress
    if record is None:  # nothing is new, and nothing to commit
        at = cursor.dump(cursor.parse(window.start, what="the window's start"))
        return StageToken(**names, start=at, epoch="", base_rev=0)
    return StageToken(
        **names,
        start=record.start,
        end=record.end,
        new=None if reached is None else cursor.dump(reached),
        epoch=record.epoch,
        base_rev=record.base_rev,
        commits=progress.commits,
        ties=progress.ties_at(reached),
        origin=record.origin,
        tells=published_window(window, record, reached if progress.commits else progress.loaded_to(), cursor),
    )


MOVES = {Outcome.ADVANCED, Outcome.JUMPED, Outcome.GAP}
"""The outcomes after which the record of the window keeps how far the run has moved the mark."""


def moved_on(
    record: WindowRecord, token: StageToken, outcome: Outcome, **changes: Unpack[WindowChanges]
) -> WindowRecord:
    """The record with changes; for some outcomes, also with how far its run has moved the mark."""
    if outcome in MOVES:
        changes["reached"] = token.new
    return record.changed(**changes)
