"""Measure, and print one table.

    python tests/benchmarks [--only TOPIC ...] [--quick] [--without OTHER ...] [--output FOLDER | --publish]

Other programs that are measured beside ours are installed into environments of their own, in the user's cache.
`make bench` measures everything and publishes it in docs/ and the README; `make bench-quick` shows that all of it runs.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "support"), str(TESTS.parent / "examples")]

from harness import NotMeasuredError, Result, Scale  # noqa: E402
from report import Machine, Report, publish  # noqa: E402
from rich.console import Console  # noqa: E402
from tables import printed  # noqa: E402

TOPICS = (
    "loop_cost",
    "airflow_loop",
    "durable_step",
    "resume",
    "growth",
    "track",
    "backend",
    "cleanup",
    "imports",
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
        publish(report)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TOPICS, default=TOPICS, metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("--quick", action="store_true", help="small sizes, and no other programs installed")
    parser.add_argument("--without", nargs="+", choices=OTHERS, default=(), metavar="OTHER", help=", ".join(OTHERS))
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write benchmarks.json and benchmarks.svg there")
    parser.add_argument("--publish", action="store_true", help="write them to docs/, and the tables into the pages")
    arguments = parser.parse_args()
    if arguments.publish and (arguments.quick or arguments.without or arguments.only != TOPICS):
        parser.error("only a whole run is published")
    return arguments


def measured(topic: str, scale: Scale) -> Iterator[Result]:
    """The results of a topic, as far as what it needs is here."""
    say(f"measuring {topic} ...")
    started = time.monotonic()
    try:
        yield from importlib.import_module(topic).measure(scale)
    except NotMeasuredError as error:
        say(f"  not all of it: {error}")
    say(f"  {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
