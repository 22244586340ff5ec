"""Try the pre-release of the next Airflow, in a virtual environment that is thrown away.

    python facts_next.py              # compare the fakes with it
    python facts_next.py jobs         # play the jobs on it whose run, Dag file or record changes

What differs is reported and is no failure: a pre-release may change, and the fakes follow the release.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEXT = "apache-airflow>=3.4.0b1,<3.5"
NEEDED = ["pytest", "httpx", "psutil", "hypothesis"]
SUITES = {
    "fakes": "tests/airflow/test_fakes_against_airflow.py",
    "jobs": "tests/airflow/test_jobs_identities.py",
}


def main() -> None:
    suite = SUITES[sys.argv[1] if len(sys.argv) > 1 else "fakes"]
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        venv.create(folder, with_pip=True)
        print(f"Installing {NEXT} ...", flush=True)
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            "--pre",
            NEXT,
            *NEEDED,
            ROOT,
        ]
        if subprocess.run(install, check=False).returncode != 0:
            print(f"{NEXT} cannot be installed here, so nothing was tried.")
            return
        print(f"Trying {version(python)}; this takes some minutes ...", flush=True)
        report = Path(folder) / "report.xml"
        compare: list[str | Path] = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            suite,
            f"--junitxml={report}",
        ]
        ran = subprocess.run(compare, cwd=ROOT, check=False, capture_output=True, text=True)
        print(table(report.read_text()) if report.exists() else ran.stdout + ran.stderr)


def version(python: Path) -> str:
    """The Airflow of that environment."""
    code = "from importlib.metadata import version as v; print('Airflow', v('apache-airflow'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def table(junit: str) -> str:
    """How many cases are the same on both, and those that are not, with what was seen."""
    cases = list(ET.fromstring(junit).iter("testcase"))  # noqa: S314  our own
    differing = [(case.get("name", ""), _seen(case)) for case in cases if _seen(case) is not None]
    lines = (f"  {name}\n      {seen}" for name, seen in differing)
    return "\n".join([f"{len(cases) - len(differing)} of {len(cases)} cases are the same on both.", *lines])


def _seen(case: ET.Element) -> str | None:
    """The first line of what went wrong; None when nothing did."""
    wrong: Iterable[ET.Element] = (child for child in case if child.tag in {"failure", "error"})
    return next(((child.get("message") or "").partition("\n")[0] for child in wrong), None)


if __name__ == "__main__":
    main()
