"""Watermarks: load what is new since the last run, and never skip a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.late import late_names

if TYPE_CHECKING:
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

__getattr__, __dir__ = late_names(
    __name__,
    {
        "AsyncWatermark": "trigger",
        "Cursor": "cursors.cursor",
        "CursorType": "cursors.cursor",
        "LoadedWindow": "events",
        "Outcome": "commit",
        "SqlColumn": "sql.column",
        "Watermark": "decorator",
        "Window": "windows.window",
        "sql_now": "sql.now",
        "watermark": "decorator",
        "windows_from_events": "events",
    },
)
