"""`airflow-resume migrate`: bring the tables up to the newest version."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_resume.command.options import add_url

if TYPE_CHECKING:
    from airflow_resume.command.options import Subcommands


def add_to(subcommands: Subcommands) -> None:
    """Say what it takes."""
    parser = subcommands.add_parser(
        "migrate",
        help="make the tables, or bring them up to the newest version",
        description="Make the tables, or bring them up to the newest version. They are never brought back to an older"
        " one. A backend does it at its first use, too; this is for a user of the database that may do it.",
    )
    add_url(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Migrate, and print from where to where."""
    from airflow_resume.backends.database import Database
    from airflow_resume.backends.settings import read_settings
    from airflow_resume.command.places import NEWEST, name_of, version_of

    database = Database(read_settings(options.url).url)
    before = version_of(database)
    database.opened()
    database.close()
    done = f"is at version {NEWEST} already" if before == NEWEST else f"from version {before} to {NEWEST}"
    print(f"{name_of(database.url)}: {done}")
    return 0
