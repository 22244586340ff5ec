"""The frames of pandas, polars and Arrow, which are looked at only where they are imported already."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from airflow_resume.watermarks.columns import Frame


class FrameLike(Protocol):
    """A DataFrame of pandas or polars, or a Table or RecordBatch of Arrow."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns."""
        ...

    @property
    def columns(self) -> Any:
        """Its columns, or their names."""
        ...


FrameT = TypeVar("FrameT", bound=FrameLike)


def frame_of(data: object) -> Frame | None:
    """The frame, if it is one of a library known here."""
    if isinstance(data, (dict, tuple, list)):  # as most rows are, and this is asked of many
        return None
    for library, kinds, opener in _LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and isinstance(data, tuple(getattr(module, kind, ()) for kind in kinds)):
            frame: Frame = getattr(import_module(f"{__package__}.{opener[0]}"), opener[1])(data)
            return frame
    return None


_LIBRARIES: tuple[tuple[str, tuple[str, ...], tuple[str, str]], ...] = (
    ("pandas", ("DataFrame",), ("frames_of_pandas", "PandasFrame")),
    ("polars", ("DataFrame",), ("frames_of_polars", "PolarsFrame")),
    ("pyarrow", ("Table", "RecordBatch"), ("frames_of_arrow", "ArrowFrame")),
)
"""The library, its frames, and where ours are: imported for the first frame, not when a Dag file is read."""
