"""Checkpointed loops: a loop that starts, on a retry, at the first element whose body had not finished."""

from airflow_resume.loops.loop import Checkpoint, checkpoint
from airflow_resume.loops.pages import Page
from airflow_resume.loops.skip import Skip
from airflow_resume.loops.source import Source
from airflow_resume.loops.sources import Batches, CursorToken

__all__ = ["Batches", "Checkpoint", "CursorToken", "Page", "Skip", "Source", "checkpoint"]
