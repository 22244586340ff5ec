"""Airbyte's operator that resumes. A sync takes no token, name or label, so the window stays open.

If a task dies after the submit and before the id is saved, the retry fails and says so, or `on_lost_submission` decides
otherwise. With `"resubmit"`, Airbyte refuses the second sync with 409 while the first one runs, since a
connection has one running sync at a time; a sync that has ended by then is run again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.providers.airbyte.hooks.airbyte import AirbyteHook
from airflow.providers.airbyte.operators import airbyte as upstream
from airflow.providers.airbyte.triggers.airbyte import AirbyteSyncTrigger

from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = ["AirbyteTriggerSyncOperator"]

_POLL_INTERVAL = 60
"""Seconds between two questions of the trigger; the provider's operator has the same, and no argument for it."""


class AirbyteTriggerSyncOperator(ProviderJob, upstream.AirbyteTriggerSyncOperator):
    """The provider's operator, which resumes. The window is not closed, see the module."""

    active = frozenset({"pending", "queued", "running", "incomplete"})
    succeeded = frozenset({"succeeded"})
    job_id_attribute = "job_id"
    not_waiting = {"asynchronous": True}  # noqa: RUF012  annotated as a ClassVar in the base

    def _get_hook(self) -> Any:
        return AirbyteHook(airbyte_conn_id=self.airbyte_conn_id, api_version=self.api_version)

    def job_status(self, external_id: Any) -> str:
        """The status of the job."""
        status = self._get_hook().get_job_status(external_id)
        return str(getattr(status, "value", status))

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the job."""
        self._get_hook().cancel_job(external_id)

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the job, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return AirbyteSyncTrigger(
            conn_id=self.airbyte_conn_id,
            job_id=external_id,
            end_time=time.time() + self.timeout,
            poll_interval=_POLL_INTERVAL,
        )
