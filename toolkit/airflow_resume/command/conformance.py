"""`airflow-resume conformance`: does a store keep the contract?"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from airflow_resume.command.options import add_output
from airflow_resume.command.table import lines

if TYPE_CHECKING:
    from airflow_resume.command.contract import Conformance
    from airflow_resume.command.options import Subcommands

OUTCOMES = ("passed", "failed", "skipped")


def add_to(subcommands: Subcommands) -> None:
    """Say what it takes."""
    parser = subcommands.add_parser(
        "conformance",
        help="test a state store, or a backend of Airflow's, with StoreContract",
        description="Test a state store, or a backend of Airflow's, with StoreContract. The factory is called for each"
        " test, and makes an empty place: a store, a backend, or a function that opens it as often as it is called, in"
        " any process, as the tests with several processes need; or a context manager that gives one of them. The exit"
        " code is 1 if a test failed.",
    )
    parser.add_argument("factory", metavar="MODULE:FACTORY", help="a function without arguments")
    parser.add_argument("-k", dest="select", metavar="EXPRESSION", help="only these tests, as with pytest -k")
    add_output(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the contract, and print how it went."""
    from airflow_resume.command.contract import run_contract

    conformance = run_contract(options.factory, options.select)
    if options.output == "json":
        print(json.dumps(_described(conformance), indent=2))
    else:
        _print_tables(conformance)
    return 1 if conformance.failed else 0


def _described(conformance: Conformance) -> dict[str, object]:
    return {
        "factory": conformance.factory,
        "supplied_as": conformance.fixture,
        "abilities": conformance.abilities,
        "groups": {
            name: {outcome: went[outcome] for outcome in OUTCOMES} for name, went in conformance.groups().items()
        },
        "skipped": conformance.skipped,
        "failed": {test.test: test.reason for test in conformance.failed},
    }


def _print_tables(conformance: Conformance) -> None:
    groups = [(name, *(went[outcome] for outcome in OUTCOMES)) for name, went in conformance.groups().items()]
    for line in lines(("GROUP", "PASSED", "FAILED", "SKIPPED"), groups):
        print(line)
    for reason, count in conformance.skipped.items():
        print(f"skipped {count}: {reason}")
    for test in conformance.failed:
        print(f"failed {test.test}: {test.reason.partition(chr(10))[0]}")
