"""The LocalExecutor, whose processes do not import again for each task what all tasks need."""

from __future__ import annotations

from importlib import import_module

from airflow.executors.local_executor import LocalExecutor

SURFACES = ("jobs", "loops", "watermarks")


class PreloadingExecutor(LocalExecutor):
    def start(self) -> None:
        for module in ("airflow.sdk.execution_time.task_runner", *(f"airflow_resume.{each}" for each in SURFACES)):
            import_module(module)
        super().start()
