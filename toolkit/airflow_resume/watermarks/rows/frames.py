"""Recognises frames of pandas, polars and Arrow, without importing these libraries."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from airflow_resume.watermarks.rows.columns import Frame


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
    if isinstance(data, (dict, tuple, list)):  # most rows are, and this is called for many
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
"""A library, its frames, and our module and class for them, which are imported for the first frame."""
