"""Sinks with exactly once: the position of a loop or a watermark is in the same transaction as the data.

- `SqlSink`: a SQL database.
- `hook_on`: an Airflow hook that works on the connection of a loop or a window.
"""
