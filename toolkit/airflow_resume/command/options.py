"""What several subcommands are told."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Subcommands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  it has no other name


def add_url(parser: argparse.ArgumentParser) -> None:
    """The database; left out, it is that of Airflow's configuration."""
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="as SQLAlchemy writes it, such as sqlite:////srv/state.db;"
        " left out, [airflow_resume] backend_url of Airflow's configuration",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """For people or for programs."""
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
