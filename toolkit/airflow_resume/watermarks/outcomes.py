"""What the log and an error say of what became of a window."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_resume.errors import WatermarkConflictError, WatermarkError, WatermarkGapError
from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.record import MarkRecord
from airflow_resume.watermarks.staged import StageToken

EXPECTED = {Outcome.ADVANCED, Outcome.NOOP, Outcome.UNCOMMITTED, Outcome.EMPTY}
"""Nobody need be warned of these."""
EXPLAINED: Mapping[Outcome, str] = {
    Outcome.ADVANCED: "advanced, the mark stands after it",
    Outcome.NOOP: "noop, the mark has no further to move",
    Outcome.GAP: "gap, something before it is not loaded, so the mark stays and the window is remembered",
    Outcome.JUMPED: "jumped, something before it is not loaded, and the mark moved over that",
    Outcome.REFUSED: "refused, something before it is not loaded",
    Outcome.FENCED: "fenced, the mark was made anew since the window began, so it stays",
    Outcome.CONFLICT: "conflict, another run has moved the token",
    Outcome.UNCOMMITTED: "not committed, so the mark stays",
    Outcome.EMPTY: "empty",
}


def failure_of(
    outcome: Outcome, token: StageToken, mark: MarkRecord | None, *, begins_anew: bool
) -> WatermarkError | None:
    """The error of an outcome that fails the task; None of another one.

    Args:
        outcome: of the window.
        token: the window.
        mark: as it stands.
        begins_anew: a retry may begin another window, at the mark.
    """
    if outcome is Outcome.CONFLICT:
        return WatermarkConflictError(
            f"Another run has moved {token.key!r} since this window began.", "A retry begins at the new token."
        )
    if outcome is not Outcome.REFUSED:
        return None
    stands = mark and mark.at
    if begins_anew:
        return WatermarkConflictError(
            f"This window began at {token.start!r}, where the mark {token.key!r} stood, and it stands at {stands!r}"
            " now: another run has written over it.",
            "A retry begins at the mark as it stands then.",
        )
    return WatermarkGapError(
        f"The window from {token.start!r} begins after the mark {stands!r} of {token.key!r}, and what lies between is"
        " not loaded.",
        "Load that first; on_gap='hold' remembers such windows, and 'jump' goes on over them.",
    )
