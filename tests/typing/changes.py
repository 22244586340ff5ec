"""A change of a record that is misspelt or wrongly typed is an error of the type checker. Checked, never executed."""

# mypy: warn-unused-ignores
# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing_extensions import assert_type

from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.record import JobRecord
from airflow_resume.loops.keeping.ledger import Ledger
from airflow_resume.loops.loop_record import Level, LoopRecord


def a_change_keeps_the_kind(job: JobRecord, loop: LoopRecord, ledger: Ledger) -> None:
    assert_type(job.changed(phase=Phase.TERMINAL, status=JobStatus.GONE), JobRecord)
    assert_type(loop.changed(**ledger.fields(), eta=None), LoopRecord)


def a_wrong_change_is_an_error(job: JobRecord, level: Level, loop: LoopRecord) -> None:
    job.changed(statsu=JobStatus.GONE)  # type: ignore[call-arg]
    job.changed(status="gone")  # type: ignore[arg-type]
    level.changed(eta=None)  # type: ignore[call-arg]
    loop.changed(n="1")  # type: ignore[arg-type]
