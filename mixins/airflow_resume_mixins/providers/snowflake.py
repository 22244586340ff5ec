"""Snowflake's operators of the SQL API that resume. The service knows a request by its id.

The window between submit and save is closed by the `requestId` of the request, which is made from the token, and by
`retry=true`. By Snowflake's documents, statements that were executed are then not executed again. The provider's hook
makes another id for each request, and sends no `retry`, not even when it sends a request again by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.providers.snowflake.operators import snowflake as upstream
from airflow.providers.snowflake.triggers.snowflake_trigger import SnowflakeSqlApiTrigger

from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = ["SnowflakeNotebookOperator", "SnowflakeSqlApiOperator"]

log = get_logger(__name__)

TIMED_OUT = 408
QUERY_TAG = "airflow-resume-{token}"


class _Statements(ProviderJob):
    """A job is the list of the handles of its statements.

    The query tag of the statements has the token, by which a person finds them in Snowflake's query history.
    """

    submission_is_idempotent = True
    active = frozenset({"running"})
    succeeded = frozenset({"success"})
    job_id_attribute = "query_ids"
    _failure = ""

    def submit_job(self, context: Context) -> Any:
        """As in the base; the request has the token."""
        with _named(self._hook, str(self.submission_token)):
            return super().submit_job(context)

    def job_status(self, external_id: Any) -> str:
        """Of all statements: the error of the first that has failed, or else whether one is running."""
        statuses = [self._status_of(query_id) for query_id in external_id]
        ended = next((status for status in statuses if status not in {"running", "success"}), None)
        return ended or ("running" if "running" in statuses else "success")

    def _status_of(self, query_id: str) -> str:
        try:
            found = self._hook.get_sql_api_query_status(query_id)
        except Exception as error:
            if _says_timed_out(error, query_id):
                return "timed_out"
            raise
        if found["status"] == "error":
            self._failure = f"Statement {query_id}: {found['message']}"
        return str(found["status"])

    def after_failure(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Show what Snowflake says of the statement that has failed."""
        if self._failure:
            log.error("%s", self._failure)

    def restore(self, external_id: Any, context: Context) -> None:
        """Push the handles, and give them to the hook, which OpenLineage asks."""
        self._hook.query_ids = external_id
        if self.do_xcom_push:
            context["ti"].xcom_push(key="query_ids", value=external_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel all statements, unless `cancel_on_kill=False`.

        Raises:
            Exception: one of them cannot be cancelled; the others are cancelled even so.
        """
        if not self.cancel_on_kill:
            return
        failures = [error for query_id in external_id if (error := self._cancelled(query_id)) is not None]
        if failures:
            raise failures[0]

    def _cancelled(self, query_id: str) -> Exception | None:
        try:
            self._hook.cancel_queries([query_id])
        except Exception as error:  # noqa: BLE001  the others are to be cancelled as well
            log.warning("Statement %s cannot be cancelled: %s", query_id, error)
            return error
        return None

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the statements, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return SnowflakeSqlApiTrigger(
            poll_interval=self.poll_interval,
            query_ids=external_id,
            snowflake_conn_id=self.snowflake_conn_id,
            token_life_time=self.token_life_time,
            token_renewal_delta=self.token_renewal_delta,
            cancel_on_kill=self.cancel_on_kill,
        )

    def answer(self, external_id: Any, context: Context) -> None:
        """The operators return nothing."""


class SnowflakeSqlApiOperator(_Statements, upstream.SnowflakeSqlApiOperator):
    """The provider's operator, which resumes. The window is closed by the `requestId`, which is made from the token.

    Snowflake's documents do not say that it compares the statements of two requests with one id. So after a crash in
    the window, the SQL of the attempt that has crashed is what runs, even if that of the retry differs.
    """


class SnowflakeNotebookOperator(_Statements, upstream.SnowflakeNotebookOperator):
    """The provider's operator, which resumes. The window is closed by the `requestId`, as of SQL."""


@contextmanager
def _named(hook: Any, token: str) -> Iterator[None]:
    """Have the hook send the id of the token, and say that it may be another try, with what it submits."""
    send, named = hook._make_api_call_with_retries, {"requestId": str(UUID(token, version=4)), "retry": "true"}
    tag = QUERY_TAG.format(token=token)

    def send_named(method: str, url: str, headers: Any, params: Any = None, json: Any = None) -> Any:
        if method == "POST" and json is not None:
            params = {**(params or {}), **named}
            json = {**json, "parameters": {**json.get("parameters", {}), "query_tag": tag}}
        return send(method, url, headers, params, json)

    hook._make_api_call_with_retries = send_named
    try:
        yield
    finally:
        del hook._make_api_call_with_retries


def _says_timed_out(error: Exception, query_id: str) -> bool:
    """Whether the time of the statement was over, and not that of the request, which has the same HTTP status."""
    response = getattr(error, "response", None)
    if getattr(response, "status_code", None) != TIMED_OUT:
        return False
    try:
        return bool(response.json().get("statementHandle") == query_id)  # type: ignore[union-attr]
    except ValueError:
        return False
