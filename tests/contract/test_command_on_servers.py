"""The console command on servers; what it does with files is in tests/unit/command."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from airflow_resume.command import main
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql

SERVERS = {
    "PostgreSQL": (schema_on_postgresql, ["database", "schema", "clock", "values"]),
    "MariaDB or MySQL": (database_on_mysql, ["database", "schema", "max_allowed_packet", "clock", "values"]),
}


@pytest.mark.parametrize(("make", "looked_at"), SERVERS.values(), ids=SERVERS)
def test_a_server_is_migrated_examined_and_cleaned(
    make: Callable[[], AbstractContextManager[str]], looked_at: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def found_in(url: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["doctor", url, "-o", "json"]) == 0
        return {finding["about"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}

    with make() as url:
        assert found_in(url)["schema"]["found"] == "no tables"
        assert [main(["cleanup", url]), main(["migrate", url]), main(["cleanup", url])] == [1, 0, 0]
        findings = found_in(url)
    assert list(findings) == looked_at
    assert {finding["level"] for about, finding in findings.items() if about != "max_allowed_packet"} == {"ok"}
