"""Results of different attempts, made comparable: ids of jobs and runs differ from scenario to scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def comparable(value: Any, job_ids: Sequence[Any], run_id: str) -> Any:
    """The value with the same word for the newest job in every scenario; earlier jobs have other words.

    An id inside a text is replaced where it is not a part of a longer word, number or IP address.

    Args:
        value: what was returned or pushed.
        job_ids: of all jobs, in the order in which they were made.
        run_id: of the Dag run.
    """
    last = len(job_ids)
    words = {number: f"job {number} of {last}" for number in range(1, last)} | {last: "the job"}
    named = [(job_id, words[number]) for number, job_id in enumerate(job_ids, 1)] + [(run_id, "the run")]
    return _replaced(value, sorted(named, key=lambda each: -len(str(each[0]))))


def _replaced(value: Any, named: Sequence[tuple[Any, str]]) -> Any:
    for known, word in named:
        if type(value) is type(known) and value == known:
            return word
    if isinstance(value, str):
        for known, word in named:
            value = re.sub(rf"(?<![0-9A-Za-z])(?<!\d\.){re.escape(str(known))}(?![0-9A-Za-z]|\.\d)", word, value)
        return value
    if isinstance(value, Mapping):
        return {_replaced(key, named): _replaced(each, named) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(each, named) for each in value]
    return value
