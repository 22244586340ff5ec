"""The load test of the SQL backend ends in time, whatever hangs, and leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
HANGS = """
import json, os, subprocess, sys, time
from chaos.supervision import UnfinishedError, each_as_it_ends

def say(*line):  # in one write, as more than one process writes here
    os.write(1, json.dumps(line).encode() + b"\\n")

def hang(folder):
    sleeping = subprocess.Popen(["sleep", "60"], start_new_session=True)
    say(str(folder), sleeping.pid)
    time.sleep(60)

def fail(folder):
    raise LookupError("of the work")

for work in each_as_it_ends([("hangs", hang), ("fails", fail), ("gives", lambda folder: 7)], at_once=2, seconds=0.8):
    try:
        say(work.name, work.end())
    except (UnfinishedError, LookupError) as error:
        say(work.name, str(error))
"""


def test_what_hangs_is_ended_with_all_that_it_began() -> None:
    command = [sys.executable, "-c", HANGS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    (folder, number), *results = sorted(map(json.loads, done.stdout.splitlines()))
    assert not Path(folder).exists()
    assert not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    expected = [["fails", "of the work"], ["gives", 7], ["hangs", "it had not ended after 0.8 s"]]
    assert results == expected
