"""The arguments of `jobs`, `loops` and `marks`: what resumes in a running Airflow."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import Any

EXIT_CODES = (
    "Exit codes: 0 done, or shown; 1 something went wrong; 2 wrong usage; 3 with --check, something is in trouble;"
    " 4 a change was refused."
)
CHANGES = (
    " Without --yes it is only shown what would be changed. A change is refused while the task that owns the record"
    " runs or may start, and if the record is not the one of --record any more. The next attempt goes by the change,"
    " even after a clear; until then `undo` takes it back."
)


def add_verbs(subcommands: Any, output: argparse.ArgumentParser, parser: type[argparse.ArgumentParser]) -> None:
    """Add the three nouns, each with its verbs."""
    airflow = parser(add_help=False)
    add_airflow(airflow)
    for noun, described, changes in (
        ("jobs", "jobs that tasks have submitted to other systems", _JOBS),
        ("loops", "loops that continue where they were", _LOOPS),
        ("marks", "watermarks: how far each asset is loaded", _MARKS),
    ):
        group = subcommands.add_parser(noun, help=f"show and change {described}", description=EXIT_CODES)
        verbs = group.add_subparsers(title="verbs", metavar="VERB", required=True)
        common = [airflow, output]
        for verb, text in (
            ("list", f"{described}: of a Dag run, of a Dag, or all that are not finished"),
            ("show", "one record: where it is, whether it is stuck, and what a retry and a clear would do"),
            ("watch", "as list, again and again"),
        ):
            made = verbs.add_parser(verb, parents=common, help=text, description=f"{text.capitalize()}. {EXIT_CODES}")
            _add_place(made, noun, required=verb == "show")
            _add_view(made, verb)
            made.set_defaults(run=f"look:{verb}".replace("list", "rows"), noun=noun)
        if noun == "marks":
            _add_history(verbs, common)
        for verb, text, extra in changes:
            made = verbs.add_parser(verb, parents=common, help=text, description=f"{text.capitalize()}.{CHANGES}")
            _add_place(made, noun, required=True)
            extra(made)
            _add_change(made)
            made.set_defaults(run="steer:change", noun=noun, verb=verb)


def _add_history(verbs: Any, common: list[argparse.ArgumentParser]) -> None:
    text = "the last moves of a mark, the newest first"
    made = verbs.add_parser("history", parents=common, help=text, description=f"{text.capitalize()}. {EXIT_CODES}")
    _add_place(made, "marks", required=True)
    made.add_argument("--most", type=_positive, metavar="N", help="so many moves (default: all that are kept)")
    made.set_defaults(run="look:history", noun="marks")


def add_airflow(parser: argparse.ArgumentParser) -> None:
    """Add where the Airflow is."""
    parser.add_argument(
        "--airflow",
        metavar="URL",
        help="the address of the Airflow, such as https://airflow.example.org; left out, AIRFLOW_RESUME_API_URL,"
        " where `airflowctl auth login` was made, or [api] base_url. Who asks: AIRFLOW_RESUME_API_TOKEN, or"
        " AIRFLOW_RESUME_API_USER and _PASSWORD",
    )
    parser.add_argument(
        "--timeout",
        type=_more_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long an answer of the Airflow is waited for, with all tries (default: 30)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say how many requests were made")


def _add_place(parser: argparse.ArgumentParser, noun: str, *, required: bool) -> None:
    several = None if required else "?"
    if noun == "marks":
        parser.add_argument("asset", metavar="ASSET", nargs=several, help="its name")
        parser.add_argument("--partition", help="of the asset")
    else:
        parser.add_argument("dag", metavar="DAG", nargs=several, help="its id")
        parser.add_argument("dag_run", metavar="RUN", nargs=several, help="the id of a Dag run, or `latest`")
        parser.add_argument("task", metavar="TASK", nargs=several, help="its id")
        parser.add_argument("--map-index", type=int, metavar="N", help="of a mapped task")
    parser.add_argument("--name", help=f"the name of the {noun.removesuffix('s')}, if there are several")


def _add_view(parser: argparse.ArgumentParser, verb: str) -> None:
    parser.add_argument("--check", action="store_true", help="end with 3 if something is in trouble")
    if verb == "show":
        return
    parser.add_argument("--trouble", action="store_true", help="only what is in trouble")
    parser.add_argument("--all", action="store_true", help="also of task instances that have ended well")
    parser.add_argument(
        "--most", type=_positive, default=2_000, metavar="N", help="task instances to look at (default: 2000)"
    )
    if verb == "watch":
        parser.add_argument("--every", type=_seconds, default=5.0, metavar="SECONDS", help="default: 5")
        parser.add_argument("--times", type=_positive, metavar="N", help="end after N looks")


def _positive(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")


_MOST_DIGITS = 18


def _seconds(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds < 1e6:  # noqa: PLR2004  neither negative nor endless, and not nan
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, such as 5 or 0.5")


def _more_seconds(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise argparse.ArgumentTypeError("0 seconds are too few")
    return seconds


def _add_change(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do it")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be changed, even with --yes")
    parser.add_argument("--record", metavar="DIGEST", help="the record that was shown; another one is not changed")
    parser.add_argument("--why", metavar="TEXT", help="kept in the record and written to the log of the next attempt")
    parser.add_argument(
        "--force", action="store_true", help="also while the task runs, and if it skips rows or leaves a job alone"
    )


# --- the changes ----------------------------------------------------------------------------------------------


def _nothing(_: argparse.ArgumentParser) -> None:
    pass


def _adopted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="of the job, as its system has it")
    parser.add_argument("--as-json", action="store_true", help="the id is JSON, such as a number")


def _rewound(parser: argparse.ArgumentParser) -> None:
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to", type=int, metavar="N", help="the element, page or list that is to be next, from 1")
    to.add_argument("--position", metavar="JSON", help="instead, a position as `show` prints it; needs --done")
    parser.add_argument("--done", type=int, metavar="N", help="how many elements are before --position")


def _rewound_mark(parser: argparse.ArgumentParser) -> None:
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to", metavar="VALUE", help="an earlier value of the mark")
    to.add_argument("--by", metavar="DISTANCE", help="such as 3d, 12h, 90m, or a number for a mark of numbers")


def _set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("to", metavar="VALUE", help="of the mark; a list as JSON")


_UNDO = ("undo", "take the last change back, if no attempt has gone by it yet", _nothing)
_JOBS = (
    ("adopt", "put a job on record that was found in the job system", _adopted),
    ("forget", "forget the job on record, so that another one is submitted", _nothing),
    _UNDO,
)
_LOOPS = (
    ("resume", "continue where the loop is, even after a clear", _nothing),
    ("rewind", "continue at an earlier element", _rewound),
    ("skip", "pass over the element that is next", _nothing),
    ("restart", "start over at the first element", _nothing),
    _UNDO,
)
_MARKS = (
    ("rewind", "set the mark back, so that rows are loaded again", _rewound_mark),
    ("set", "set the mark to any value", _set),
    ("reset", "set the mark to its initial value", _nothing),
    _UNDO,
)
