"""Checkpointed loops: a loop that starts, on a retry, at the first element whose body had not finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.late import late_names

if TYPE_CHECKING:
    from airflow_resume.loops.checkpointing import checkpoint
    from airflow_resume.loops.loop import Checkpoint
    from airflow_resume.loops.open_loop import Element
    from airflow_resume.loops.skip import Skip
    from airflow_resume.loops.sources.batches import Batches
    from airflow_resume.loops.sources.chunks import Chunk
    from airflow_resume.loops.sources.files import Files
    from airflow_resume.loops.sources.keyset import Keyset
    from airflow_resume.loops.sources.numbered import Offset, PageNumber
    from airflow_resume.loops.sources.pages import Page
    from airflow_resume.loops.sources.source import Source
    from airflow_resume.loops.sources.time_slices import TimeSlice, TimeSlices
    from airflow_resume.loops.sources.tokens import CursorToken

__all__ = [
    "Batches",
    "Checkpoint",
    "Chunk",
    "CursorToken",
    "Element",
    "Files",
    "Keyset",
    "Offset",
    "Page",
    "PageNumber",
    "Skip",
    "Source",
    "TimeSlice",
    "TimeSlices",
    "checkpoint",
]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "Batches": "sources.batches",
        "Checkpoint": "loop",
        "Chunk": "sources.chunks",
        "CursorToken": "sources.tokens",
        "Element": "open_loop",
        "Files": "sources.files",
        "Keyset": "sources.keyset",
        "Offset": "sources.numbered",
        "Page": "sources.pages",
        "PageNumber": "sources.numbered",
        "Skip": "skip",
        "Source": "sources.source",
        "TimeSlice": "sources.time_slices",
        "TimeSlices": "sources.time_slices",
        "checkpoint": "checkpointing",
    },
)
