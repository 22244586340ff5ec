"""A window that one task loads and another commits: what passes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from airflow_resume.errors import StageTokenError
from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.entry import Origin, ToldWindow
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.record import WindowRecord
from airflow_resume.watermarks.told import told_of
from airflow_resume.watermarks.window import Window

if TYPE_CHECKING:
    from airflow_resume.attempt import Claim, Scope

T = TypeVar("T")


class StageToken(BaseModel):
    """A loaded window, as JSON that an XCom carries.

    Args:
        key: of the mark.
        dag_id, run_id, task_id: of the task that loaded it.
        new: how far the mark may move.
        ties: which rows at `new` are loaded.
        tells: what consumers learn; None: there is nothing to tell.
        told_as: is in tokens of before, and says nothing.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    v: int = 2
    key: str
    partition: JsonValue = None
    dag_id: str
    run_id: str
    task_id: str = ""
    start: JsonValue
    end: JsonValue = None
    new: JsonValue = None
    epoch: str
    base_rev: int
    commits: bool = True
    origin: Origin = "mark"
    ties: tuple[str, ...] | None = None
    tells: ToldWindow | None = None
    told_as: None = Field(default=None, exclude=True)

    @property
    def bounds(self) -> str:
        """Of the window, for people."""
        return f"[{self.start}, {'...' if self.end is None else self.end})"

    @property
    def is_of_nothing(self) -> bool:
        """Whether nothing was new: then a last task need not ask whether there was a window."""
        return not self.epoch

    @classmethod
    def read(cls, token: object, *, keys: Keys, scope: Scope) -> StageToken:
        """The token, if it is one of this mark and run.

        Raises:
            StageTokenError: it is not.
        """
        try:
            read = cls.model_validate(token)
        except ValidationError as error:
            raise StageTokenError(
                f"{str(token)[:100]!r} is not what window.stage() returned.", "Hand it on as it is, such as by an XCom."
            ) from error
        if (read.dag_id, read.run_id) != (scope.dag_id, scope.run_id):
            raise StageTokenError(
                f"This token was staged by the run {read.run_id!r} of {read.dag_id!r}, and this is {scope.run_id!r} of"
                f" {scope.dag_id!r}.",
                "Pull it from this run.",
            )
        if read.key not in {keys.mark, keys.old and keys.old.mark}:
            raise StageTokenError(f"This token is one of {read.key!r}, and this watermark is {keys.mark!r}")
        return read if read.v > 1 else read.model_copy(update={"tells": read.told_by_0_1()})

    def window(self, known: WindowRecord | None, *, key: str, type: str, claim: Claim) -> WindowRecord:  # noqa: A002
        """The record of the window, for the task that commits it.

        Args:
            known: what this task has; it stays, if it is of this window: the task has loaded it, or began to commit it.
            key: of the record.
            type: of the cursor.
            claim: of the attempt.
        """
        names = ("start", "end", "epoch", "base_rev")
        if known is not None and all(getattr(known, name) == getattr(self, name) for name in names):
            return known.model_copy(update={"claim": claim})
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

    def told_by_0_1(self) -> ToldWindow | None:
        """What version 0.1 loaded of a window, as far as it said."""
        to = self.new if self.commits or self.end is None else self.end
        return None if to is None else ToldWindow(start=self.start, end=to)


def token_of(window: Window[T], reached: T | None, cursor: CursorType[T], *, key: str, scope: Scope) -> StageToken:
    """The window as it was loaded.

    Args:
        window: that this task has loaded.
        reached: how far the mark may move; None: nothing was seen.
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
    record = window.record
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
        commits=window.commits,
        ties=window.ties_at(reached),
        origin=record.origin,
        tells=told_of(window, record, reached if window.commits else window.loaded_to(), cursor),
    )


MOVES = {Outcome.ADVANCED, Outcome.JUMPED, Outcome.GAP}
"""What a run has loaded counts."""


def moved_on(record: WindowRecord, token: StageToken, outcome: Outcome, **update: Any) -> WindowRecord:
    """The record, which remembers how far its run has moved the mark; with what else there is to `update`."""
    if outcome in MOVES:
        update["reached"] = token.new
    return record.model_copy(update=update)
