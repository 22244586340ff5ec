"""The SQL backend under load and faults: processes are killed, servers restarted, connections cut and stalled.

    make chaos          CHAOS="--minutes 5 --databases sqlite,postgresql --seed 7"

Eight processes of two threads, and one that cleans up, use a database: an SQLite file, PostgreSQL, PostgreSQL behind
PgBouncer, and MariaDB, on servers of their own that are started here and removed afterwards. They write down what
they do; in the end the logs are read. It exits with 1 if an acknowledged write is lost, a value torn or wrong, a
write done late, an error not named rightly, a process stuck, or a call much longer than its patience.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random, SystemRandom

from rich.console import Console
from rich.table import Table

from chaos.databases import PLACES
from chaos.oracle import KINDS
from chaos.supervision import UnfinishedError, each_as_it_ends
from chaos.trial import PATIENCE_SECONDS, Trial, TrialResult
from tests.support.backends.servers import NotInstalledError

MINUTES, AT_ONCE = 3.0, 2
SPARE_SECONDS = 150.0
"""How much longer than its time a trial may take, for its preparation and its evaluation."""
FAULTS_SHOWN = 5


def main() -> int:
    """Run the load test, print the result, and return the exit code."""
    arguments = parsed()
    console = Console(highlight=False, soft_wrap=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    names: list[str] = arguments.databases
    at_once = min(arguments.at_once, len(names))
    seconds = arguments.seconds or 60 * arguments.minutes * at_once / len(names)
    console.print(f"{', '.join(names)}: {seconds:g} s each, {at_once} at once, seed {arguments.seed}")
    outcomes, missing, unfinished = [], [], []
    works = [(name, partial(tried, name, seconds, arguments.seed)) for name in names]
    for work in each_as_it_ends(works, at_once=at_once, seconds=seconds + SPARE_SECONDS):
        try:
            outcomes.append(work.end())
        except NotInstalledError as error:
            missing.append(work.name)
            console.print(f"{work.name} is skipped: {error}")
        except UnfinishedError as error:
            unfinished.append(work.name)
            console.print(f"{work.name} gave nothing: {error}")
    report(console, sorted(outcomes, key=lambda outcome: names.index(outcome.name)))
    all_right = outcomes and not unfinished and all(outcome.is_right for outcome in outcomes)
    return 0 if all_right and not (missing and arguments.require) else 1


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=MINUTES, help="of all databases together (%(default)s)")
    length.add_argument("--seconds", type=float, help="of each database")
    parser.add_argument("--databases", type=_names, default=list(PLACES), help="separated by commas (all)")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="so many databases (%(default)s)")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="of the choices")
    parser.add_argument("--require", action="store_true", help="fail if a server is not installed")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PLACES]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(PLACES)}")
    return names


def tried(name: str, seconds: float, seed: int, home: Path) -> TrialResult:
    """The result of one database.

    Raises:
        NotInstalledError: a program is missing.
    """
    place = PLACES[name](home / "place", Random(seed), PATIENCE_SECONDS)  # noqa: S311
    try:
        place.start()
        return Trial(place, home / "logs", seed).play(seconds)
    finally:
        place.stop()


# --- the report -----------------------------------------------------------------------------------------------


def report(console: Console, outcomes: Sequence[TrialResult]) -> None:
    """Print a table with a column for each database, the first faults, and all as JSON."""
    table = Table("", *(outcome.name for outcome in outcomes), title="What came of it")
    for label, cell in _ROWS.items():
        table.add_row(label, *map(cell, outcomes))
    console.print(table)
    for outcome in outcomes:
        for kind in KINDS:
            faults = [fault.text for fault in outcome.faults if fault.kind == kind]
            for text in faults[:FAULTS_SHOWN]:
                console.print(f"{outcome.name}, {kind}: {text}", markup=False)
        if outcome.without:
            console.print(f"{outcome.name}: {outcome.without}")
    print(json.dumps([_as_json(outcome) for outcome in outcomes]))


def _many(counts: dict[str, int]) -> str:
    return "\n".join(f"{count:,} {name}" for name, count in counts.items())


def _bad(count: int) -> str:
    return f"[red]{count:,}[/]" if count else "0"


def _faults(kind: str) -> Callable[[TrialResult], str]:
    return lambda outcome: _bad(_by_kind(outcome)[kind])


def _by_kind(outcome: TrialResult) -> Counter[str]:
    return Counter(fault.kind for fault in outcome.faults)


def _longest(outcome: TrialResult) -> str:
    seconds, operation = outcome.longest_call
    return f"[red]{seconds:.1f} s[/], {operation}" if outcome.too_long else f"{seconds:.1f} s, {operation}"


_ROWS: dict[str, Callable[[TrialResult], str]] = {
    "seconds": lambda outcome: f"{outcome.seconds:.0f}",
    "acknowledged": lambda outcome: f"{outcome.acknowledged.total():,}",
    "chaos": lambda outcome: _many(outcome.disturbed),
    "errors": lambda outcome: _many(dict(outcome.errors.most_common())),
    **{kind: _faults(kind) for kind in KINDS},
    "stuck": lambda outcome: _bad(outcome.stuck),
    "died": lambda outcome: _bad(outcome.died),
    f"longest call (patience {PATIENCE_SECONDS:g} s)": _longest,
}


def _as_json(outcome: TrialResult) -> dict[str, object]:
    return {
        "database": outcome.name,
        "seconds": round(outcome.seconds, 1),
        "acknowledged": dict(outcome.acknowledged),
        "chaos": outcome.disturbed,
        "errors": dict(outcome.errors),
        **{kind: _by_kind(outcome)[kind] for kind in KINDS},
        "stuck": outcome.stuck,
        "died": outcome.died,
        "longest": {operation: round(seconds, 2) for operation, seconds in outcome.longest.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
