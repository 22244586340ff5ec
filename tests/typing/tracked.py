"""What `window.track` gives back, as a type checker sees it: rows of the rows' type, a frame of the frame's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from sqlalchemy import Connection, Row, text
from typing_extensions import Unpack, assert_type

from airflow_resume.watermarks import Window


def of_rows(window: Window[Any], rows: list[dict[str, int]], tuples: Iterator[tuple[int, str]]) -> None:
    assert_type(window.track(rows, "n"), Iterator[dict[str, int]])
    assert_type(window.track(rows, "n", unique="id", version=["a", "b"]), Iterator[dict[str, int]])
    assert_type(window.track(rows, lambda row: row["n"]), Iterator[dict[str, int]])
    assert_type(window.track(tuples, 0, unique=lambda row: row[1]), Iterator[tuple[int, str]])


def of_frames(window: Window[Any], frame: pl.DataFrame, parts: Iterator[pl.DataFrame]) -> None:
    assert_type(window.track(frame, "n", unique="id"), pl.DataFrame)
    assert_type(window.track(parts, "n"), Iterator[pl.DataFrame])


def of_a_database(window: Window[Any], connection: Connection) -> None:
    for row in window.track(connection.execute(text("SELECT 1 AS n")), "n"):
        assert_type(row, Row[Unpack[tuple[Any, ...]]])
