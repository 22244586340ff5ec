"""Checkpointed loops: a loop that starts, on a retry, at the first element whose body had not finished."""

from airflow_resume.loops.loop import Checkpoint, checkpoint
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
