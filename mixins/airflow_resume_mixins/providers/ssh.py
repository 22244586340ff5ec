"""Operators of `apache-airflow-providers-ssh` that resume."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.ssh.operators import ssh_remote_job as upstream
from airflow.providers.ssh.utils.remote_job import (
    POSIX_DEFAULT_BASE_DIR,
    RemoteJobPaths,
    build_posix_kill_command,
    build_posix_wrapper_command,
)
from paramiko.ssh_exception import AuthenticationException, BadHostKeyException, SSHException

from airflow_resume.errors import UsageError
from airflow_resume.jobs import JobStatus
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from airflow.triggers.base import BaseTrigger
    from pydantic import JsonValue

    from airflow_resume.jobs import JobRun

log = get_logger(__name__)

__all__ = ["SSHRemoteJobOperator"]

SECONDS = 60
"""The most that one command on the remote host may take."""
EXISTS = "exists"
"""What the start prints if the directory of the job is there."""


class SSHRemoteJobOperator(ProviderJob, upstream.SSHRemoteJobOperator):
    """Runs one remote process, and waits for that one in every attempt.

    The window between submit and save is closed by the job's directory: its name has the token, and `mkdir`, which is
    atomic, is in the same remote command as the start of the process. So of two submits with one token, even at the
    same time, one starts a process, and the other finds it.

    The record has the name of the host, and a later attempt asks the same host. If the name leads to several machines,
    a job on another one cannot be seen. After a crash of the remote host a process id may belong to another process.

    It waits in the triggerer, as the provider's operator does; set `deferrable = False` in a subclass to wait in the
    worker. A Windows host is refused.

    Raises:
        UsageError: the remote host is not a POSIX system.
    """

    submission_is_idempotent = True
    active = frozenset({"RUNNING"})
    deferrable = True
    _status = ""

    def _begin(self, context: Context, **options: Any) -> JobRun:
        """As in `ResumableJobMixin`, with the `timeout` of the operator."""
        if self.timeout and self.resume_policy.poll.timeout is None:
            poll = replace(self.resume_policy.poll, timeout=timedelta(seconds=self.timeout))
            object.__setattr__(self, "resume_policy", replace(self.resume_policy, poll=poll))
        return super()._begin(context, **options)

    @staticmethod
    def transient_errors(error: BaseException) -> bool:
        """Whether the connection failed, and not the login."""
        refused = (AuthenticationException, BadHostKeyException)
        return isinstance(error, (SSHException, OSError, EOFError)) and not isinstance(error, refused)

    def submit_job(self, context: Context) -> JsonValue:
        """Start the process, unless its directory is there."""
        if self.remote_base_dir is not None:
            self._validate_base_dir(self.remote_base_dir)
        job = {"host": self.ssh_hook.remote_host, "id": f"af_{self.submission_token}"}
        with self.ssh_hook.get_conn() as client:
            if self._detect_remote_os(client) != "posix":
                raise UsageError(
                    f"The remote host {job['host']!r} is not a POSIX system, where {type(self).__name__} can resume.",
                    "Import the operator from airflow.providers.ssh.operators.ssh_remote_job for this task.",
                )
            answer = self._run(self._start_command(self._paths_of(job)), client)
        if answer == EXISTS:
            log.info("An earlier submit has made the job %s", job["id"])
        self.restore(job, context)
        return job

    def _start_command(self, paths: RemoteJobPaths) -> str:
        if not self.command:
            raise UsageError("command is empty.", f"Give {type(self).__name__} a command.")
        base, job_dir = (shlex.quote(path) for path in (self._base_dir, paths.job_dir))
        claim = (
            f"mkdir -p {base} || exit 1; mkdir {job_dir} || {{ test -d {job_dir} || exit 1; echo {EXISTS}; exit 0; }}"
        )
        return f"{claim}\n{build_posix_wrapper_command(self.command, paths, self.environment)}"

    @property
    def _base_dir(self) -> str:
        return self.remote_base_dir or POSIX_DEFAULT_BASE_DIR

    def _paths_of(self, job: Any) -> RemoteJobPaths:
        return RemoteJobPaths(job_id=job["id"], remote_os="posix", base_dir=self._base_dir)

    def _run(self, command: str, client: Any) -> str:
        """What the command printed.

        Raises:
            ConnectionError: the command has not ended well: the host, or the connection to it, is in trouble.
        """
        status, out, err = self.ssh_hook.exec_ssh_client_command(client, command, False, None, SECONDS)
        if status != 0:
            raise ConnectionError(f"A command on {self.ssh_hook.remote_host} ended with {status}: {err.decode()}")
        return out.decode().strip()

    def _ask(self, job: Any, command: str) -> str:
        if self.ssh_hook.remote_host != job["host"]:
            self.remote_host = job["host"]
            self.__dict__.pop("ssh_hook", None)
        with self.ssh_hook.get_conn() as client:
            return self._run(command, client)

    def job_status(self, external_id: JsonValue) -> str:
        """The exit code, or a word of ours."""
        job_dir = shlex.quote(self._paths_of(external_id).job_dir)
        # Whether it lives is asked first: if it ends meanwhile, the exit code is there.
        self._status = self._ask(
            external_id,
            f"cd {job_dir} 2>/dev/null || {{ test -d {job_dir} && exit 1; echo GONE; exit 0; }}\n"
            'p=$(cat pid 2>/dev/null); a=; test -n "$p" && kill -0 "$p" 2>/dev/null && a=RUNNING\n'
            'test -s exit_code && cat exit_code || echo "${a:-${p:+LOST}}"',
        )
        return self._status

    def classify_job_status(self, status: Any) -> JobStatus:
        """Without an exit code: it runs, was killed (`LOST`), is gone with its directory, or has no process id yet."""
        if status.isdigit():
            good = int(status) == 0 or int(status) in self.skip_on_exit_code
            return JobStatus.SUCCEEDED if good else JobStatus.FAILED
        words = {"RUNNING": JobStatus.ACTIVE, "LOST": JobStatus.FAILED, "GONE": JobStatus.GONE}
        return words.get(status, JobStatus.UNKNOWN)

    def success_event(self, external_id: JsonValue) -> Mapping[str, Any]:
        """As the provider's trigger fires it; with `cleanup`, the directory may be gone already."""
        return {
            **self._arguments(external_id),
            "done": True,
            "exit_code": int(self._status) if self._status.isdigit() else 0,
        }

    def restore(self, external_id: JsonValue, context: Context) -> None:
        """The XCom of the job's files."""
        paths = self._paths_of(external_id)
        files = {"pid_file": paths.pid_file, **self._arguments(external_id)}
        if self.do_xcom_push:
            context["ti"].xcom_push(key="ssh_remote_job", value=files)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def job_trigger(self, external_id: JsonValue, context: Context) -> BaseTrigger:  # noqa: ARG002
        """The provider's own, which reads the log of the job."""
        return upstream.SSHRemoteJobTrigger(
            ssh_conn_id=self.ssh_conn_id,
            remote_host=external_id["host"],  # type: ignore[index, call-overload]
            poll_interval=self.poll_interval,
            log_chunk_size=self.log_chunk_size,
            command_timeout=self.command_timeout,
            max_reconnect_attempts=self.max_reconnect_attempts,
            **self._arguments(external_id),
        )

    def _arguments(self, job: Any) -> dict[str, Any]:
        paths = self._paths_of(job)
        return {
            "job_id": paths.job_id,
            "job_dir": paths.job_dir,
            "log_file": paths.log_file,
            "exit_code_file": paths.exit_code_file,
            "remote_os": "posix",
        }

    def resume_complete(self, context: Context, event: Any = None) -> Any:
        """As in `ProviderJob`. The end of the job's log comes with the event."""
        for line in (event or {}).get("log_chunk", "").splitlines():
            log.info("[remote] %s", line)
        return super().resume_complete(context, event)

    def after_failure(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Clean up, if that is wanted. Of a job that has succeeded, the provider's `execute_complete` does it."""
        if self.cleanup == "always":
            self._cleanup_remote_job(self._paths_of(external_id).job_dir, "posix")

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Kill the process and its children; right after the start its id may not be written yet."""
        pid_file = self._paths_of(external_id).pid_file
        file = shlex.quote(pid_file)
        # Airflow calls this in a signal handler. The code that it has interrupted may hold a lock of its connection,
        # which would never be free: so this has a connection of its own.
        self.ssh_hook.client = None
        wait = f"n=0; while test ! -s {file} && test $n -lt 30; do sleep 0.1; n=$((n+1)); done"
        self._ask(external_id, f"{wait}\n{build_posix_kill_command(pid_file)}")

    def on_kill(self) -> None:
        """`cancel_job` does it."""
