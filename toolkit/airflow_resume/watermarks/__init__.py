"""Watermarks: load what is new since the last run, and never skip a row."""

from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.cursor import Cursor, CursorType
from airflow_resume.watermarks.events import LoadedWindow, windows_from_events
from airflow_resume.watermarks.mark import Watermark, watermark
from airflow_resume.watermarks.sql_column import SqlColumn
from airflow_resume.watermarks.sql_now import sql_now
from airflow_resume.watermarks.trigger import AsyncWatermark
from airflow_resume.watermarks.window import Window

__all__ = [
    "AsyncWatermark",
    "Cursor",
    "CursorType",
    "LoadedWindow",
    "Outcome",
    "SqlColumn",
    "Watermark",
    "Window",
    "sql_now",
    "watermark",
    "windows_from_events",
]
