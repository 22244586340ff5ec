"""The child process of `airflow-resume conformance`: pytest, with a record of every test in a file.

python -m airflow_resume.command.recorder FOLDER [ARGUMENT OF PYTEST ...]
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.command.conformance import RESULTS


@dataclass
class Recorder:
    """A plugin of pytest."""

    groups: dict[str, str] = field(default_factory=dict)
    """Of every test that was found, by its id."""
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Every test that was run: one that was not is not taken for passed."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The group of a test is the module of the contract that it stands in."""
        for item in items:
            module: str = getattr(item, "function").__module__  # noqa: B009  an Item need not have one
            self.groups[item.nodeid] = module.rpartition(".")[2]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the set-up, the test and the tear-down."""
        name = report.nodeid.rpartition("::")[2]
        new = {"group": self.groups[report.nodeid], "test": name, "outcome": "passed", "reason": ""}
        test = self.tests.setdefault(report.nodeid, new)
        test["properties"] = report.user_properties
        if report.outcome != "passed" and test["outcome"] != "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = report.longreprtext if crash is None else str(crash.message)
            if isinstance(report.longrepr, tuple):
                reason = report.longrepr[2].removeprefix("Skipped: ")
            test.update(outcome=report.outcome, reason=reason)


def main(folder: Path, *arguments: str) -> int:
    """Run what is in the folder."""
    recorder = Recorder()
    code = pytest.main(["-c", str(folder / "pytest.ini"), "-q", *arguments, str(folder)], plugins=[recorder])
    (folder / RESULTS).write_text(json.dumps(list(recorder.tests.values())))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
