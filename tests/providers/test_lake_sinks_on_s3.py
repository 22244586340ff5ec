"""Sinks in a lake on S3: moto as a server, which has conditional writes."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("moto", reason="providers have an environment of their own: make providers")

import boto3

from airflow_resume.errors import SupersededError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import DeltaSink, ObjectSink

TASK: list[Any] = ["loop", "dag", "run", "task", -1, "orders"]
REGION = "us-east-1"


def attempt(try_number: int) -> Claimant:
    return Claimant(owner="a task", try_number=try_number)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server is another process: delta-rs holds the interpreter's lock while it reads a file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    served = "import sys; from moto.server import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", served, "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until_open(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def wait_until_open(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(port)


@pytest.fixture
def bucket(url: str, request: pytest.FixtureRequest) -> str:
    name = f"lake-{abs(hash(request.node.name))}"
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": REGION}
    boto3.client("s3", endpoint_url=url, **keys).create_bucket(Bucket=name)
    return name


def test_a_delta_table_has_each_row_once_and_a_superseded_attempt_writes_nothing(url: str, bucket: str) -> None:
    options = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": REGION,
    }
    uri, schema = f"s3://{bucket}/flights", pa.schema([("id", pa.int64())])
    old = DeltaSink(uri, storage_options=options, schema=schema).claim(TASK, attempt(1))
    old.connection.append([{"id": 1}])
    old.commit(1)
    new = DeltaSink(uri, storage_options=options).claim(TASK, attempt(2))
    assert new.position == 1
    old.connection.append([{"id": 9}])
    with pytest.raises(SupersededError):
        old.commit(9)
    for number in (2, 3):
        new.connection.append([{"id": number}])
        new.commit(number)

    from deltalake import DeltaTable

    rows = DeltaTable(uri, storage_options=options).to_pyarrow_table()
    assert sorted(rows["id"].to_pylist()) == [1, 2, 3]
    assert DeltaSink(uri, storage_options=options).claim(TASK, attempt(3)).position == 3


def test_a_folder_has_each_file_once_and_a_superseded_attempt_commits_nothing(url: str, bucket: str) -> None:
    s3fs = pytest.importorskip("s3fs")
    options = {"key": "x", "secret": "x", "client_kwargs": {"endpoint_url": url, "region_name": REGION}}

    def sink() -> ObjectSink:
        return ObjectSink(f"s3://{bucket}/flights", storage_options=options)

    old = sink().claim(TASK, attempt(1))
    old.connection.write("a.txt", "1")
    old.commit(1)
    old.connection.write("b.txt", "left behind")
    new = sink().claim(TASK, attempt(2))
    assert new.position == 1
    old.connection.write("b.txt", "late")
    with pytest.raises(SupersededError):
        old.commit(9)
    with pytest.raises(KeyError), new.connection.open("b.txt") as file:
        file.write(b"half")
        raise KeyError
    new.connection.write("b.txt", "2")
    new.commit(2)
    files = s3fs.S3FileSystem(**options)
    assert [files.cat_file(path) for path in sink().committed()] == [b"1", b"2"]
    assert not [path for path in files.find(bucket) if "half" in path or "left" in path]
