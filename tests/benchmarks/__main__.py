"""Measure, and print one table.

    python tests/benchmarks [--only TOPIC ...] [--quick] [--without ENVIRONMENT ...] [--output FOLDER]

`make bench` measures all and rewrites docs/benchmarks.*; `--quick` shows in a minute that everything runs.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "support"), str(TESTS.parent / "examples")]

from harness import NotMeasuredError, Result, Scale  # noqa: E402
from report import printed  # noqa: E402
from rich.console import Console  # noqa: E402

TOPICS = ("loop_cost", "airflow_loop", "durable_step", "resume", "growth", "track", "backend", "cleanup")
TABLE_WIDTH = 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TOPICS, default=TOPICS, metavar="TOPIC", help=", ".join(TOPICS))
    parser.add_argument("--quick", action="store_true", help="small sizes, no other programs installed")
    parser.add_argument("--without", nargs="+", default=(), metavar="ENVIRONMENT", help="not to be installed")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    scale = Scale(quick=arguments.quick, without=frozenset(arguments.without))
    results = [result for topic in arguments.only for result in measured(topic, scale)]
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    console.print(printed(results))


def measured(topic: str, scale: Scale) -> Iterator[Result]:
    """The results of a topic; none where what it needs is not here."""
    print(f"measuring {topic} ...", file=sys.stderr, flush=True)
    try:
        yield from importlib.import_module(topic).measure(scale)
    except NotMeasuredError as error:
        print(f"{topic}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
