"""dbt Cloud's operator that resumes. The service takes no token, but gives back the reason why a run was triggered.

The window between submit and save is closed by a look-up: the token is added to the reason (`trigger_reason`, which dbt
Cloud calls `cause`), and is looked for in the reasons of the newest 100 runs of the job.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from airflow.providers.dbt.cloud.hooks.dbt import DBT_CAUSE_MAX_LENGTH, DbtCloudJobRunStatus
from airflow.providers.dbt.cloud.operators import dbt as upstream
from airflow.providers.dbt.cloud.triggers.dbt import DbtCloudRunJobTrigger

from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

__all__ = ["DbtCloudRunJobOperator"]

_NEWEST = 100
"""How many runs dbt Cloud lists at most in one answer."""


class DbtCloudRunJobOperator(ProviderJob, upstream.DbtCloudRunJobOperator):
    """The provider's operator, which resumes. The window is closed by a look-up of the token in the runs' reasons.

    A run that is retried by `retry_from_failure=True` has no reason. If the task dies between such a submit and the
    save, the run is not found, and a second one is submitted. The same is true of a run that `reuse_existing_run=True`
    has found: if it has ended meanwhile, another one is submitted.
    """

    active = frozenset({"QUEUED", "STARTING", "RUNNING"})
    succeeded = frozenset({"SUCCESS"})
    job_id_attribute = "run_id"
    not_waiting = {"wait_for_termination": False}  # noqa: RUF012  annotated as a ClassVar in the base

    def _get_or_trigger_run(self, context: Context) -> Any:
        """Here, and not in put_token: the operator may have replaced the reason by what OpenLineage wants in it."""
        reason, token = str(self.trigger_reason), str(self.submission_token)
        with self._set(trigger_reason=f"{reason[: DBT_CAUSE_MAX_LENGTH - len(token) - 1]} {token}"):
            return self._upstream("_get_or_trigger_run")(self, context)

    def find_jobs(self, slot: str, context: Context) -> dict[str, JsonValue]:  # noqa: ARG002
        """The runs whose reason ends with a token of this slot."""
        newest = {"job_definition_id": self._resolve_job_id(), "order_by": "-created_at", "limit": _NEWEST}
        payload = {**newest, "include_related": ["trigger"]}
        runs = self.hook.get_job_runs(account_id=self.account_id, payload=payload).json()["data"]
        reasons = ((run["id"], (run.get("trigger") or {}).get("cause") or "") for run in runs)
        found = ((run_id, re.search(rf" ({slot}[0-9a-f]{{16}})$", reason)) for run_id, reason in reasons)
        return {match[1]: run_id for run_id, match in found if match is not None}

    def job_status(self, external_id: Any) -> str:
        """The name of the status, which dbt Cloud gives as a number."""
        run = self.hook.get_job_run(run_id=external_id, account_id=self.account_id).json()["data"]
        return DbtCloudJobRunStatus(run["status"]).name

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the run; the engine waits for its end if it has to."""
        self.hook.cancel_job_run(run_id=external_id, account_id=self.account_id)

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the run, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return DbtCloudRunJobTrigger(
            conn_id=self.dbt_cloud_conn_id,
            run_id=external_id,
            end_time=time.time() + self.timeout,
            account_id=self.account_id,
            poll_interval=self.check_interval,
            hook_params=self.hook_params,
        )

    def restore(self, external_id: Any, context: Context) -> None:
        """Push the id of the run and the address of its page."""
        run = self.hook.get_job_run(run_id=external_id, account_id=self.account_id).json()["data"]
        ti = context["ti"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
        ti.xcom_push(key="job_run_url", value=run["href"])
        ti.xcom_push(key="job_run_id", value=external_id)
