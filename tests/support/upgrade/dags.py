"""A Dag of operators in all places where a Dag may have them, as `make` returns it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, TaskGroup, task

from tests.support.upgrade.operators import CopyOperator, QueryOperator, TrainOperator


class Named(TrainOperator):
    """A user's: it says nothing about how it runs."""

    ui_color = "#123456"
    operator_extra_links: Any = ()

    def __init__(self, *, model: str, **options: Any) -> None:
        super().__init__(data=f"of {model}", **options)
        self.model = model

    def on_kill(self) -> None:
        super().on_kill()


class Afterwards(TrainOperator):
    """A user's that does something when the job has ended."""

    def execute(self, context: Any) -> Any:
        return {"score": self.service.result(super().execute(context)["job"])}


def make(dag_id: str = "fleet") -> DAG:
    with DAG(dag_id, schedule=None) as dag:
        plain: Any = TrainOperator(task_id="plain")

        @task
        def use(result: Any) -> Any:
            return result

        use(plain.output)
        TrainOperator(task_id="fed", data=plain.output["data"])
        with TaskGroup("group"):
            TrainOperator(task_id="inner").set_downstream(CopyOperator(task_id="copy"))
        TrainOperator.partial(task_id="mapped").expand(data=["a", "b"])
        begin: Any = TrainOperator(task_id="begin")
        end = TrainOperator(task_id="end").as_teardown(setups=begin.as_setup())
        with end:
            QueryOperator(task_id="query")
        Named(task_id="named", model="m")
        Named.partial(task_id="named_mapped").expand(model=["m", "n"])
        Afterwards(task_id="afterwards")
        TrainOperator(task_id="deferrable", deferrable=True)
        TrainOperator.partial(task_id="deferrable_mapped", deferrable=True).expand(data=["a"])
    return dag
