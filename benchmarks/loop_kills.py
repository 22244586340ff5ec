"""What five SIGKILLs cost a loop over all flights in a real Airflow, without the start-up of the retries: one line.

python -m benchmarks.loop_kills [--seed N] [--latency SECONDS]

The source takes its time for a page, as one on the internet does: the loop lasts for a minute, and is played twice.
What was done since the last write, at most a second's work, is done again after each kill, and is part of the cost.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from random import SystemRandom

from stage import Stage
from tests.support.airflow.flights_runs import cost_of_kills
from tests.support.airflow.loop_runs import LOOP_DAGS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--latency", type=float, default=0.04, help="of a page, in seconds")
    parser.add_argument("--limit", type=int, default=250, help="rows of a page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Stage(Path(folder), dags=LOOP_DAGS) as stage:
        stage.airflow.wait_until_parsed("all_flights")
        cost = cost_of_kills(stage, seed=arguments.seed, limit=arguments.limit, latency=arguments.latency)
    print(f"a loop that is killed, seed {arguments.seed}, {arguments.limit} rows in {arguments.latency} s: {cost}")


if __name__ == "__main__":
    main()
