"""Measure, and print one table.

    python -m benchmarks [--only TOPIC ...] [--quick] [--without OTHER ...] [--output FOLDER | --publish]

Other programs that are measured beside ours are installed into separate environments, in the user's cache.
`make bench` measures everything and publishes it in docs/ and the README; with --only and --publish, some topics are
measured again on the same machine. `make bench-quick` shows that all of it runs.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.harness import NotMeasuredError, Result, Scale
from benchmarks.report import DOCS, Machine, Report, publish
from benchmarks.tables import printed

TOPICS = (
    "loop_cost",
    "airflow_loop",
    "waiting",
    "fleet",
    "durable_step",
    "resume",
    "growth",
    "page",
    "track",
    "backend",
    "sinks",
    "cleanup",
    "imports",
    "upgrade",
    "explorer",
)
OTHERS = ("dlt", "dbos", "torchdata")
TABLE_WIDTH = 150


def main() -> None:
    arguments = parsed()
    logging.disable(logging.ERROR)
    scale = Scale(quick=arguments.quick, without=frozenset(arguments.without))
    results = [result for topic in arguments.only for result in measured(topic, scale)]
    report = Report(machine=Machine.here(scale), results=results)
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    console.print(printed(report.results))
    console.print(report.machine.described())
    if arguments.output:
        report.write(arguments.output)
    if arguments.publish:
        publish(report if arguments.only == TOPICS else Report.read(DOCS).renewed(report))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TOPICS, default=TOPICS, metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("--quick", action="store_true", help="small sizes, and no other programs installed")
    parser.add_argument("--without", nargs="+", choices=OTHERS, default=(), metavar="OTHER", help=", ".join(OTHERS))
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write benchmarks.json and benchmarks.svg there")
    parser.add_argument("--publish", action="store_true", help="write them to docs/, and the tables into the pages")
    arguments = parser.parse_args()
    if arguments.publish and (arguments.quick or arguments.without):
        parser.error("a quick run, or one without others, is not published")
    return arguments


def measured(topic: str, scale: Scale) -> Iterator[Result]:
    """The results of a topic, as far as everything that it needs is available."""
    say(f"measuring {topic} ...")
    started = time.monotonic()
    try:
        yield from importlib.import_module(f"benchmarks.{topic}").measure(scale)
    except NotMeasuredError as error:
        say(f"  not all of it: {error}")
    say(f"  {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
