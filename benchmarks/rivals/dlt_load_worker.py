"""dlt's way to a table: rows in pages through `incremental`, one load, and its state in a table of its own."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
os.environ["RUNTIME__LOG_LEVEL"] = "ERROR"

import dlt  # type: ignore[import-not-found,unused-ignore]
from protocol import serve, wall_time


def load(file: str, page: int, url: str, schema: str) -> float:
    rows = json.loads(Path(file).read_text())

    def flights(id: Any = dlt.sources.incremental("id", initial_value=-1)) -> Iterator[Any]:  # noqa: A002, B008
        for start in range(0, len(rows), page):
            yield [dict(row) for row in rows[start : start + page]]  # dlt changes them

    with tempfile.TemporaryDirectory() as folder:
        pipeline = dlt.pipeline(
            "flights",
            pipelines_dir=folder,
            destination=dlt.destinations.postgres(credentials=url),
            dataset_name=schema,
        )
        resource = dlt.resource(flights, write_disposition="append")
        return wall_time(lambda: pipeline.run(resource()))


serve({"load": load})
