"""The LocalExecutor, whose processes do not import the providers anew for each task: that takes some seconds."""

from __future__ import annotations

from importlib import import_module

from airflow.executors.local_executor import LocalExecutor


class PreloadingExecutor(LocalExecutor):
    def start(self) -> None:
        for provider in ("amazon.athena", "amazon.step_function", "databricks", "ssh"):  # with the operators themselves
            import_module(f"airflow_resume_mixins.providers.{provider}")
        super().start()
