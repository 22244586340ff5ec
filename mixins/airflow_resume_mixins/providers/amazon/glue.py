"""Glue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.hooks.glue import GlueJobHook
from airflow.providers.amazon.aws.operators import glue as upstream
from airflow.providers.amazon.aws.triggers.glue import GlueJobCompleteTrigger

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob, not_older

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

TOKEN_ARGUMENT = "--airflow_resume_token"  # noqa: S105


class GlueJobOperator(AwsJob, upstream.GlueJobOperator):
    """`GlueJobOperator` that resumes.

    By look-up: the token is an argument of the job run, `--airflow_resume_token`, and `GetJobRuns` returns the
    arguments of all runs. The role needs `glue:GetJobRuns`. A script that refuses arguments which it does not know has
    to accept this one.

    `stop_job_run_on_kill=False`, which is the default, holds here too: then a run that is not wanted any more is
    not stopped, and the next one begins when it has ended.
    """

    job_id_attribute = "_job_run_id"
    not_waiting = {"wait_for_completion": False, "deferrable": False}  # noqa: RUF012
    not_found_codes = frozenset({"EntityNotFoundException"})
    _logs: Any = None

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self.script_args = {**self.script_args, TOKEN_ARGUMENT: token}

    def find_job(self, token: str, context: Context) -> Any:
        """The id of the job run with the token among its arguments."""
        pages = self.hook.conn.get_paginator("get_job_runs").paginate(JobName=self.job_name)
        runs = not_older((run for page in pages for run in page["JobRuns"]), context, began=("StartedOn",))
        return next((run["Id"] for run in runs if run.get("Arguments", {}).get(TOKEN_ARGUMENT) == token), None)

    def get_job_status(self, external_id: Any, context: Context) -> Any:
        """As in the operator itself, and so are the logs, with `verbose`."""
        status = super().get_job_status(external_id, context)
        if self.verbose and status != upstream.NOT_FOUND_STATE:
            self._logs = self._logs or GlueJobHook.LogContinuationTokens()
            self.hook.print_job_logs(job_name=self.job_name, run_id=external_id, continuation_tokens=self._logs)
        return status

    def job_trigger(self, external_id: Any, context: Context) -> GlueJobCompleteTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return GlueJobCompleteTrigger(
            job_name=self.job_name, run_id=external_id, verbose=self.verbose, **self.waiting()
        )

    def get_job_result(self, external_id: Any, context: Context) -> Any:
        """As in the operator itself."""
        time.sleep(self.sleep_before_return)
        return super().get_job_result(external_id, context)

    def restore(self, external_id: Any, context: Context) -> None:
        """As in `ProviderJob`."""
        self._job_run_id = None  # or else it is taken for shown
        self._set_job_run_id(context, external_id)
