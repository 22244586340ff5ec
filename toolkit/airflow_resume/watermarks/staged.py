"""A window that one task loads and another commits: what passes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from airflow_resume.errors import StageTokenError
from airflow_resume.watermarks.record import Origin

if TYPE_CHECKING:
    from airflow_resume.attempt import Scope


class StageToken(BaseModel):
    """A loaded window, as JSON that an XCom carries.

    Args:
        key: of the mark.
        dag_id, run_id: of the run that loaded it.
        new: how far the mark may move.
        ties: which rows at `new` are loaded.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    v: int = 1
    key: str
    partition: JsonValue = None
    dag_id: str
    run_id: str
    start: JsonValue
    end: JsonValue = None
    new: JsonValue = None
    epoch: str
    base_rev: int
    commits: bool = True
    origin: Origin = "mark"
    ties: tuple[str, ...] | None = None

    @classmethod
    def of_nothing(cls, *, key: str, partition: JsonValue, scope: Scope, at: JsonValue) -> StageToken:
        """The token of an empty window, so that a last task need not ask whether there was one."""
        return cls(
            key=key, partition=partition, dag_id=scope.dag_id, run_id=scope.run_id, start=at, epoch="", base_rev=0
        )

    @property
    def is_of_nothing(self) -> bool:
        """Whether nothing was new."""
        return not self.epoch

    @classmethod
    def read(cls, token: object, *, key: str, scope: Scope) -> StageToken:
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
        if read.key != key:
            raise StageTokenError(f"This token is one of {read.key!r}, and this watermark is {key!r}")
        return read
