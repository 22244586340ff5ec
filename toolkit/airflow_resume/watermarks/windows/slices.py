"""A window in slices. Each is committed when the body asks for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from airflow_resume.errors import WatermarkError
from airflow_resume.watermarks.windows.window import Window

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T", default=Any)


class Slice(Window[T]):
    """A part of a window, as `Window.split` hands it out. The whole window is committed, and not the slice.

    Args:
        whole: the window.
        start, end: of the slice.
    """

    def __init__(self, whole: Window[T], start: T, end: T) -> None:
        super().__init__(
            whole.plan.narrowed(start, end), keeper=whole.keeper, partition=whole.partition, is_retry=whole.is_retry
        )
        self.record = whole.record
        self._checked_at = whole._checked_at  # noqa: SLF001  of its base
        self._refuses_text, self._has_warned = whole._refuses_text, whole._has_warned  # noqa: SLF001
        self._checks_form = whole._checks_form  # noqa: SLF001

    def stage(self) -> dict[str, JsonValue]:
        """Not possible.

        Raises:
            WatermarkError: always.
        """
        self.progress.check_read()
        raise WatermarkError(
            "A slice is committed by itself, and cannot be staged.", "Stage the window, and do not split it."
        )


def slices_of(window: Window[T], step: Any) -> Iterator[Slice[T]]:
    """The slices. After the body has loaded a slice, the window is committed up to the end of the slice.

    A slice may be split again: its own slices are committed with it.

    Args:
        window: that has an end.
        step: the length of a slice, checked.
    """
    cursor, done, progress = window.plan.cursor, None if window.record is None else window.record.done, window.progress
    start: Any = window.plan.start if done is None else cursor.parse(done, what="the slices done")
    end: Any = window.plan.end
    keeper = None if isinstance(window, Slice) else window.keeper
    while start < end:
        later: Any = cursor.step(start, step)
        stop = min(later, end)
        piece = Slice(window, start, stop)
        yield piece
        progress.add_slice(piece.progress)
        if stop < end and keeper is not None and progress.commits:
            keeper.commit_slice(window, progress.limited(stop), progress.reached_in_slices(stop))
        else:
            window.check_if_due()
        start = stop
