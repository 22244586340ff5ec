"""Watermarks: load what is new since the last run, and never skip a row."""

from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.cursors.cursor import Cursor, CursorType
from airflow_resume.watermarks.decorator import Watermark, watermark
from airflow_resume.watermarks.events import LoadedWindow, windows_from_events
from airflow_resume.watermarks.sql.column import SqlColumn
from airflow_resume.watermarks.sql.now import sql_now
from airflow_resume.watermarks.trigger import AsyncWatermark
from airflow_resume.watermarks.windows.window import Window

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
