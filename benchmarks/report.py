"""The results of a run as a file, with the machine and the versions, and the pages that are made from it."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from benchmarks.chart import drawn
from benchmarks.environments import DBOS, DLT, TORCHDATA
from benchmarks.harness import Result, Scale
from benchmarks.tables import documented, shortened
from tests.support.backends.databases import MYSQL, POSTGRESQL, ask

ROOT = Path(__file__).parents[1]
DOCS, README = ROOT / "docs", ROOT / "README.md"
OURS = ("apache-airflow", "apache-airflow-task-sdk", "sqlalchemy", "psycopg", "pymysql")


class Machine(BaseModel):
    """What the numbers depend on, without anything that identifies the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int
    cpu: str
    system: str
    versions: dict[str, str]

    @classmethod
    def here(cls, scale: Scale) -> Machine:
        rivals = [rival for rival in (DLT, DBOS, TORCHDATA) if scale.allows(rival.name)]
        return cls(
            cores=os.cpu_count() or 1,
            cpu=cpu_model(),
            system=f"{platform.system()} {platform.machine()}",
            versions={
                "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version,
                **servers(),
                **{name: version(name) for name in OURS},
                **dict(pin.split("==") for rival in rivals for pin in rival.requirements),
            },
        )

    def described(self) -> str:
        """The description in a sentence or two."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"Measured on {self.cores} cores of {self.cpu} ({self.system}), with {versions}.\n"


class Report(BaseModel):
    """Everything that was measured in one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    machine: Machine
    results: list[Result]

    @classmethod
    def read(cls, folder: Path) -> Report:
        return cls.model_validate_json((folder / "benchmarks.json").read_text())

    def write(self, folder: Path) -> Report:
        """Write the file, and the chart of it; what was written, with the digits that are kept."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "benchmarks.json").write_text(self.model_dump_json(indent=1, exclude_none=True) + "\n")
        written = Report.read(folder)
        (folder / "benchmarks.svg").write_text(drawn(written.results))
        return written

    def renewed(self, newer: Report) -> Report:
        """With the newer results where a row was measured again, and with its new rows at the end.

        Raises:
            ValueError: they were measured on another machine, or with other versions.
        """
        if newer.machine != self.machine:
            raise ValueError(f"{newer.machine.described()}What is published was {self.machine.described().lower()}")
        again = {result.row for result in newer.results}
        return Report(
            machine=self.machine, results=[*(old for old in self.results if old.row not in again), *newer.results]
        )

    def full_table(self) -> str:
        """With the machine."""
        return f"{self.machine.described()}\n{documented(self.results)}"

    def short_table(self) -> str:
        """The headlines."""
        return shortened(self.results)


def publish(report: Report) -> None:
    """Write the files to `docs`, and the tables into the pages."""
    for page, table in pages(report.write(DOCS)).items():
        page.write_text(with_table(page.read_text(), table))


def pages(report: Report) -> dict[Path, str]:
    """The pages that show a report, and what they show."""
    return {DOCS / "benchmarks.md": report.full_table(), README: report.short_table()}


BETWEEN = re.compile(r"(?<=<!-- benchmarks -->\n\n).*?(?=\n<!-- end of benchmarks -->)", re.DOTALL)


def with_table(page: str, table: str) -> str:
    """The page with another table between its marks.

    Raises:
        LookupError: there are none.
    """
    changed, times = BETWEEN.subn(lambda _: table, page)
    if times != 1:
        raise LookupError("the page has no place for a table of benchmarks")
    return changed


def servers() -> dict[str, str]:
    """The versions of those that answer."""
    asked = {"postgresql": (POSTGRESQL, "SHOW server_version"), "mysql": (MYSQL, "SELECT version()")}
    found = {}
    for name, (server, question) in asked.items():
        with suppress(pytest.skip.Exception):
            answer: Any = ask(server.found(), question)
            found[name] = str(answer[0][0]).split()[0]
    return found


def cpu_model() -> str:
    """As the kernel names it."""
    facts = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", facts.read_text()) if facts.exists() else None
    return found[1] if found else platform.processor() or "an unknown processor"
