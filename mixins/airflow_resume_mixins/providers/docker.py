"""Operators of `apache-airflow-providers-docker` that resume."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.docker.operators import docker as upstream
from docker.errors import APIError, NotFound
from docker.types import Mount

from airflow_resume.jobs import JobStatus
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

log = get_logger(__name__)

__all__ = ["DockerOperator"]

CONFLICT = 409
LABEL = "airflow-resume-token"
ELSEWHERE = "on another Docker host"


class DockerOperator(ProviderJob, upstream.DockerOperator):
    """Runs one container, and waits for that one in every attempt.

    The window between submit and save is closed by the name of the container, which a Docker host has only once: it has
    the token, unless `container_name` is given. A label has the token too, so a container of a given name that was
    there before is not taken for ours. A container that was created and not started is started.

    A container is known to its own Docker host only. The record has the identity of the host. On another one, as with
    the socket of each worker, a retry counts the status as unknown, and does not start a second container. After a
    crash in the window, that cannot be known: use one Docker host for all workers, or a queue for each.

    The log of the container is shown when it has ended. Then `auto_remove` is carried out, after the result is saved.
    """

    submission_is_idempotent = True
    still_called = ("format_command", "unpack_environment_variables")
    active = frozenset({"running", "paused", "restarting"})
    while_submitting = {"auto_remove": "never"}  # noqa: RUF012
    _status = ""

    def put_token(self, token: str) -> None:
        """Into the label, and into the name."""
        given = self.labels or {}
        self.labels = {**(given if isinstance(given, dict) else dict.fromkeys(given, "")), LABEL: token}
        self.container_name = self.container_name or f"airflow-{token}"

    def own_execute(self, context: Context) -> Any:
        """Let the operator create and start the container, and stop it where it would wait."""
        client = self.cli
        self.hook.__dict__["api_client"] = _Starting(client, str(self.submission_token))
        try:
            return super().own_execute(context)
        except _StartedError as started:
            return {"id": started.container_id, "host": client.info().get("ID")}
        finally:
            self.hook.__dict__["api_client"] = client

    def _run_image(self) -> Any:
        """As upstream, with a folder that outlives the attempt."""
        if not (self._is_submitting and self.mount_tmp_dir):
            return super()._run_image()
        folder = self._folder
        folder.mkdir(exist_ok=True)
        try:
            mounts = [*self.mounts, Mount(self.tmp_dir, str(folder), "bind")]
            return self._run_image_with_mounts(mounts, add_tmp_variable=True)
        except APIError as error:
            if str(folder) not in str(error):
                raise
            log.warning("The Docker host cannot mount %s.\nSet mount_tmp_dir=False", folder)
            return self._run_image_with_mounts(self.mounts, add_tmp_variable=False)

    @property
    def _folder(self) -> Path:
        return Path(self.host_tmp_dir or tempfile.gettempdir()) / f"airflow-{self.submission_token}"

    def job_status(self, external_id: JsonValue) -> str:
        """The status of the container, or its exit code."""
        job: Any = external_id
        try:
            state = self.cli.inspect_container(job["id"])["State"]
        except NotFound:
            if self.cli.info().get("ID") == job["host"]:
                raise
            self._status = ELSEWHERE
        else:
            self._status = str(state["ExitCode"]) if state["Status"] == "exited" else state["Status"]
        return self._status

    def classify_job_status(self, status: Any) -> JobStatus | None:
        """By the exit code."""
        if status.lstrip("-").isdigit():
            good = int(status) == 0 or int(status) in self.skip_on_exit_code
            return JobStatus.SUCCEEDED if good else JobStatus.FAILED
        return JobStatus.FAILED if status == "dead" else JobStatus.UNKNOWN

    def get_job_result(self, external_id: JsonValue, context: Context) -> Any:
        """What the operator returns: a file, the log, or its last line.

        Raises:
            DockerContainerFailedSkipException: the exit code is one of `skip_on_exit_code`.
        """
        super().get_job_result(external_id, context)
        lines = self._show_log(external_id)
        if int(self._status) in self.skip_on_exit_code:
            raise upstream.DockerContainerFailedSkipException(f"The container returned {self._status}.", logs=lines)
        if self.retrieve_output:
            return self._attempt_to_retrieve_result()
        if not (self.do_xcom_push and lines):
            return None
        return lines if self.xcom_all else lines[-1]

    def _show_log(self, external_id: Any) -> list[str]:
        self.container = {"Id": external_id["id"]}
        return list(upstream.fetch_logs(self.cli.logs(external_id["id"], stream=True), self.log))

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:
        """As in `ProviderJob`; what is removed, is removed when the result is saved."""
        answer = super().execute(context, *args, **options)
        self._remove(self.external_id)
        return answer

    def after_failure(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Show the log, and remove what is to be removed."""
        self._show_log(external_id)
        self._remove(external_id)

    def _remove(self, external_id: Any) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        if self.auto_remove == "never":
            return
        try:
            self.cli.remove_container(external_id["id"], force=self.auto_remove == "force")
        except APIError as error:
            log.info("The container is not removed: %s", error)

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Stop the container, as the operator's own `on_kill` does."""
        _ = self.cli
        self.container = {"Id": external_id["id"]}  # type: ignore[index, call-overload]
        self._upstream("on_kill")(self)

    def on_kill(self) -> None:
        """`cancel_job` does it."""


class _StartedError(Exception):
    """The container has been started."""

    def __init__(self, container_id: str) -> None:
        super().__init__(container_id)
        self.container_id = container_id


class _Starting:
    """The client of the Docker host while the operator submits: it finds a container of ours, and does not wait."""

    def __init__(self, client: Any, token: str) -> None:
        self._client, self._token = client, token

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_container(self, *args: Any, **options: Any) -> dict[str, Any]:
        try:
            made: dict[str, Any] = self._client.create_container(*args, **options)
        except APIError as error:
            if error.status_code != CONFLICT:
                raise
            found = self._client.inspect_container(options["name"])
            if found["Config"]["Labels"].get(LABEL) != self._token:
                raise
            return {"Id": found["Id"]}
        return made

    def attach(self, **_options: Any) -> tuple[()]:
        return ()

    def start(self, container: str) -> None:
        self._client.start(container)
        raise _StartedError(container)
