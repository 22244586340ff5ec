"""Checkpointed loops: a loop that starts, on a retry, at the first element whose body had not finished."""

from airflow_resume.loops.loop import Checkpoint, checkpoint
from airflow_resume.loops.sources import Batches, CursorToken, Page, Source

__all__ = ["Batches", "Checkpoint", "CursorToken", "Page", "Source", "checkpoint"]
