"""Operators as a provider has them: they submit and wait in one `execute`. Nothing of airflow-resume is in them."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin
from airflow.sdk.bases.operatorlink import BaseOperatorLink


class TrainLink(BaseOperatorLink):
    name = "Training"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return "https://train"


class TrainOperator(BaseOperator):
    """Trains `data`, and returns what it trained with."""

    template_fields = ("data",)
    ui_color = "#abcdef"
    operator_extra_links: Any = (TrainLink(),)
    service: ClassVar[Any] = None
    token: Any = None
    wait = True

    def __init__(self, *, data: Any = "d", deferrable: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.data, self.deferrable = data, deferrable
        self.job: Any = None

    def execute(self, context: Any) -> Any:
        self.job = self.service.submit(self.name_of(self.token))
        if self.wait:
            self.watch()
        return self.returned()

    def name_of(self, token: Any) -> Any:
        return token

    def watch(self) -> None:
        self.service.wait(self.job)

    def returned(self) -> Any:
        return {"job": self.job, "data": self.data}

    def explain(self) -> str:
        return "not called by execute"

    def on_kill(self) -> None:
        self.service.cancel(self.job)


class CopyOperator(BaseOperator):
    def execute(self, context: Any) -> Any:
        return "copied"


class QueryOperator(AirflowResumableJobMixin, BaseOperator):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Written with Airflow's mixin."""

    def __init__(self, *, sql: str = "select 1", **options: Any) -> None:
        super().__init__(**options)
        self.sql = sql

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> Any:
        return self.sent()

    def sent(self) -> Any:
        return TrainOperator.service.submit(getattr(self, "token", None))

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return str(TrainOperator.service.status(external_id))

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.watch(external_id)

    def watch(self, external_id: Any) -> None:
        TrainOperator.service.wait(external_id)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return external_id
