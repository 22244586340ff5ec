"""What the recipes for AWS have in common: error codes, tokens in requests and names, links, and listings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from botocore.exceptions import ClientError

from airflow_resume.errors import JobInputsChangedError
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

CLOCKS_DIFFER = timedelta(hours=1)
"""The most by which the clock of the service may differ from Airflow's."""
GENERAL_CODES = frozenset({"InvalidRequestException", "ValidationException"})
"""Codes that some services have for an unknown job, and for any other request that they do not accept as well."""
_IS_NOT_THERE = re.compile(r"not found|could not find|does not exist|is not valid", re.IGNORECASE)


class AwsJob(ProviderJob):
    """A recipe for one of the operators of AWS."""

    not_found_codes: ClassVar[Collection[str]] = ()
    """The error codes that mean that there is no such job. Most come with HTTP 400."""
    waiter_arguments: ClassVar[tuple[str, str]] = ("waiter_delay", "waiter_max_attempts")
    """The arguments of the operator that its trigger knows as `waiter_delay` and `waiter_max_attempts`."""

    if TYPE_CHECKING:
        aws_conn_id: str | None
        region_name: str | None
        verify: bool | str | None
        botocore_config: dict[str, Any] | None
        hook: Any

    def job_not_found(self, error: BaseException) -> bool:
        """Whether the error has one of `not_found_codes`, and says so in its text if the code alone is too general."""
        code = code_of(error)
        return code in self.not_found_codes and (
            code not in GENERAL_CODES or _IS_NOT_THERE.search(str(error)) is not None
        )

    def submit_job(self, context: Context) -> JsonValue:
        """Submit the job as the operator does, with the token in it.

        Raises:
            JobInputsChangedError: the service knows the token, and its request had other parameters.
        """
        try:
            return super().submit_job(context)
        except ClientError as error:
            if not is_used_with_others(error):
                raise
            raise JobInputsChangedError(
                f"An earlier attempt has sent the token {self.submission_token} with other parameters, and may have"
                f" started a job: {error}",
                "Give the operator its earlier arguments again. Or stop that job, if there is one, delete the key"
                " 'resume.job.job' of the task's state in Airflow's UI, and clear the task.",
                slot="job",
                token=self.submission_token,
            ) from error

    def send_with(self, operations: Iterable[str], field: str) -> None:
        """Let the client of the hook send the token in a field that the operator has no argument for.

        Args:
            operations: of the service, such as `RunTask`.
            field: of their requests.
        """

        def add(params: dict[str, Any], **_: Any) -> None:
            params[field] = self.submission_token

        client = self.hook.conn
        service = client.meta.service_model.service_id.hyphenize()
        for operation in operations:  # an id that is registered already is not registered again
            event = f"before-parameter-build.{service}.{operation}"
            client.meta.events.register(event, add, unique_id=f"airflow-resume-{operation}-{id(self)}")

    def waiting(self) -> dict[str, Any]:
        """The arguments that all triggers take, as the operator passes them on."""
        delay, attempts = (getattr(self, name) for name in self.waiter_arguments)
        return {"waiter_delay": delay, "waiter_max_attempts": attempts, **self.connection()}

    def connection(self) -> dict[str, Any]:
        """The arguments of a trigger that say how to reach AWS."""
        return {
            "aws_conn_id": self.aws_conn_id,
            "region_name": self.region_name,
            "verify": self.verify,
            "botocore_config": self.botocore_config,
        }

    def persist(self, link: Any, context: Context, **fields: Any) -> None:
        """Show a link of the operator, as it does it itself.

        Args:
            link: the class of the link.
            context: of the task.
            **fields: that the link is made of.
        """
        link.persist(
            context=context,
            operator=self,
            region_name=self.hook.conn_region_name,
            aws_partition=self.hook.conn_partition,
            **fields,
        )


def code_of(error: BaseException) -> str | None:
    """The error code of an answer of AWS; None for any other error."""
    return error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None


def is_used_with_others(error: ClientError) -> bool:
    """Whether the token, or the name with the token, was already used with other parameters."""
    said = error.response.get("Error", {})
    return said.get("Code") == "ExecutionAlreadyExists" or bool(_ABOUT_THE_TOKEN.search(str(said)))


_ABOUT_THE_TOKEN = re.compile(r"idempoten|client ?(request ?)?token", re.IGNORECASE)
"""Services have different codes for it, but name the token. (The security token is another thing.)"""


def not_older(
    found: Iterable[Mapping[str, Any]], context: Context, *, began: Iterable[str]
) -> Iterator[Mapping[str, Any]]:
    """The jobs of a listing, the newest first, down to those from before the Dag run: none of them is of this task.

    Args:
        found: all jobs, the newest first.
        context: of the task.
        began: the keys on the way to the time at which a job began.
    """
    run_after = getattr(context.get("dag_run"), "run_after", None)
    for job in found:
        at: Any = job
        for key in began:
            at = at.get(key) if at else None
        if run_after is not None and at is not None and at < run_after - CLOCKS_DIFFER:
            return
        yield job
