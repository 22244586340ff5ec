"""The worker's side: reads a line of JSON, answers with the seconds. It runs in environments without our packages."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def serve(calls: dict[str, Callable[..., float]]) -> None:
    """Answer until standard input ends. What the rival prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(calls[request.pop("call")](**request)), file=answers, flush=True)


def processor_time(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def wall_time(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
