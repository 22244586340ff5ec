"""Watermarks: load what is new since the last run, and never skip a row."""

from airflow_resume.watermarks.cursor import Cursor
from airflow_resume.watermarks.mark import Watermark, watermark
from airflow_resume.watermarks.window import Window

__all__ = ["Cursor", "Watermark", "Window", "watermark"]
