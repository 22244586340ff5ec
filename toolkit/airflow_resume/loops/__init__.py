"""Checkpointed loops: a loop that starts, on a retry, at the first element whose body had not finished."""

from airflow_resume.loops.batches import Batches
from airflow_resume.loops.chunks import Chunk
from airflow_resume.loops.files import Files
from airflow_resume.loops.keyset import Keyset
from airflow_resume.loops.loop import Checkpoint, checkpoint
from airflow_resume.loops.numbered import Offset, PageNumber
from airflow_resume.loops.pages import Page
from airflow_resume.loops.run import Element
from airflow_resume.loops.skip import Skip
from airflow_resume.loops.slices import TimeSlice, TimeSlices
from airflow_resume.loops.source import Source
from airflow_resume.loops.tokens import CursorToken

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
