"""The process that stands for version 1: it opens the backend and carries out commands, one a line.

It runs with the sources of that version, so it imports nothing else from the tests.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

from airflow_resume.backends import SqlStateStore, SqlStoreBackend


def main() -> None:
    url, name = sys.argv[1:]
    backend = SqlStoreBackend(url, patience=5)
    store = SqlStateStore(backend, name)
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        try:
            answer = clean(backend) if word == "clean" else getattr(store, word)(*arguments, **options(word))
            print(json.dumps(["done", answer]), flush=True)
        except Exception as error:  # noqa: BLE001  its name is the answer
            print(json.dumps(["error", type(error).__name__]), flush=True)


def clean(backend: SqlStoreBackend) -> str:
    return str(backend.clean())


def options(word: str) -> dict[str, timedelta]:
    return {"retention": timedelta(days=1)} if word == "set" else {}


main()
