"""Sinks with exactly once: the position of a loop or a watermark is in the same transaction as the data.

- `SqlSink`: a SQL database.
- `DeltaSink`, `IcebergSink`: a table of a lake.
- `ObjectSink`: files in a folder or an object store.
- `hook_on`: an Airflow hook that works on the connection of a loop or a window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.late import late_names

if TYPE_CHECKING:
    from airflow_resume.sinks.delta import DeltaSink
    from airflow_resume.sinks.hooks import hook_on
    from airflow_resume.sinks.iceberg import IcebergSink
    from airflow_resume.sinks.objects import ObjectSink
    from airflow_resume.sinks.sql import SqlSink

__all__ = ["DeltaSink", "IcebergSink", "ObjectSink", "SqlSink", "hook_on"]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "DeltaSink": "delta",
        "IcebergSink": "iceberg",
        "ObjectSink": "objects",
        "SqlSink": "sql",
        "hook_on": "hooks",
    },
)
