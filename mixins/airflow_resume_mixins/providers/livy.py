"""Livy's operator that resumes. Livy (from 0.7 on) refuses a name that is in use, and finds a batch by its name.

The window between submit and save is closed by the name of the batch, which ends with the token, and by a look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.apache.livy.hooks.livy import BatchState
from airflow.providers.apache.livy.operators import livy as upstream
from airflow.providers.apache.livy.triggers.livy import LivyTrigger
from airflow.providers.common.compat.openlineage.utils.spark import (
    inject_parent_job_information_into_spark_properties,  # pyright: ignore[reportAttributeAccessIssue]
    inject_transport_information_into_spark_properties,  # pyright: ignore[reportAttributeAccessIssue]
)

from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

__all__ = ["LivyOperator"]

log = get_logger(__name__)


class LivyOperator(ProviderJob, upstream.LivyOperator):  # pyright: ignore[reportIncompatibleVariableOverride]
    """The provider's operator, which resumes. The window is closed by the name of the batch.

    `polling_interval=0`, the provider's default, submits and does not wait, as it does there.
    A Livy that does not recover its batches after a restart counts their ids from 0 again. Then an id on record may
    belong to another batch.
    """

    active = frozenset({"not_started", "starting", "running", "idle", "busy", "shutting_down", "recovering"})
    succeeded = frozenset({BatchState.SUCCESS.value})
    job_id_attribute = "_batch_id"
    _name: str | None = None
    _shown: tuple[JsonValue, ...] = ()

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:  # noqa: ARG002  as in the base
        """As in the base, with what the operator's own does for OpenLineage."""
        conf: Any = self.spark_params["conf"]
        if self.openlineage_inject_parent_job_info:
            conf = inject_parent_job_information_into_spark_properties(conf, context)
        if self.openlineage_inject_transport_info:
            conf = inject_transport_information_into_spark_properties(conf, context)
        self.spark_params["conf"] = conf
        self._defers = self.deferrable
        if self.deferrable or self._polling_interval > 0:
            return self.execute_resumable(context)
        return self.get_job_result(self.submit_resumable(context).external_id, context)

    def put_token(self, token: str) -> None:
        """At the end of the name."""
        if self._name is None:
            self._name = str(self.spark_params["name"] or self.task_id)
        self.spark_params["name"] = f"{self._name}-{token}"

    def find_job(self, token: str, context: Context) -> JsonValue:  # noqa: ARG002
        """The batch of this name."""
        name = f"{self._name or self.spark_params['name'] or self.task_id}-{token}"
        answer = self.hook.run_method(f"{self.hook.endpoint_prefix}/batches/{name}")
        if answer.status_code == 404:  # noqa: PLR2004
            return None
        answer.raise_for_status()
        batch_id: JsonValue = answer.json()["id"]
        return batch_id

    def job_status(self, external_id: Any) -> str:
        """The state of the batch. When it has ended, its log is shown, as the operator's own waiting does."""
        state = self.hook.get_batch_state(external_id, retry_args=self.retry_args)
        if state in self.hook.TERMINAL_STATES and external_id not in self._shown:
            self._shown = (*self._shown, external_id)
            try:
                self.hook.dump_batch_logs(external_id)
            except Exception:
                log.warning("The log of batch %r cannot be shown", external_id, exc_info=True)
        return str(state.value)

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return LivyTrigger(
            batch_id=external_id,
            spark_params=self.spark_params,
            livy_conn_id=self._livy_conn_id,
            polling_interval=self._polling_interval or 60,  # with 0 it would fire at once
            extra_options=self._extra_options,
            extra_headers=self._extra_headers,
            endpoint_prefix=self._livy_endpoint_prefix,
        )
