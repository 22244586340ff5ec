"""The frames of pandas, polars and Arrow, which are looked at only where they are imported already."""

from __future__ import annotations

import sys
from typing import Any, Protocol, TypeVar

from airflow_resume.watermarks.columns import Frame
from airflow_resume.watermarks.frames_of_arrow import ArrowFrame
from airflow_resume.watermarks.frames_of_pandas import PandasFrame
from airflow_resume.watermarks.frames_of_polars import PolarsFrame


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
            return opener(data)
    return None


_LIBRARIES: tuple[tuple[str, tuple[str, ...], type[Frame]], ...] = (
    ("pandas", ("DataFrame",), PandasFrame),
    ("polars", ("DataFrame",), PolarsFrame),
    ("pyarrow", ("Table", "RecordBatch"), ArrowFrame),
)
