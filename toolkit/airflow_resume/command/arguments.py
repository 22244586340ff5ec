"""The arguments of the command, and of its subcommands.

A subcommand names the function that runs it as `module:function` of this package, so that nothing of it is imported.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from airflow_resume.command.verbs import add_airflow, add_verbs


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print("airflow-resume", version("airflow-resume"))
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors quote no URL, because a URL is likely to have a password in it."""

    given: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        super().error(without_urls(message, self.given))


def without_urls(text: str, given: Sequence[str]) -> str:
    """The text with `***` for each of the command's arguments that may be a URL or a part of one."""
    urls = [argument for argument in given if re.search(r"://[^/]*(:|%3A).*@|[?;&#=]", argument)]
    parts = [part for url in urls for part in (url, url.partition("=")[2], url.partition(":")[2])]
    for part in sorted({*parts, *(repr(part)[1:-1] for part in parts)} - {""}, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def parser_for(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command, which quotes nothing of the given arguments that may be a password."""
    _Parser.given = given
    url = _Parser(add_help=False)
    url.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="as SQLAlchemy writes it, such as sqlite:////srv/state.db;"
        " left out, [airflow_resume] backend_url or backend_conn_id of Airflow's configuration",
    )
    output = _Parser(add_help=False)
    _add_output(output)

    parser = _Parser(
        prog="airflow-resume",
        description="Show and steer what resumes in a running Airflow; look after state in a database of your own, and"
        " test a store.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version, and end")
    subcommands = parser.add_subparsers(title="subcommands", metavar="SUBCOMMAND", required=True)

    add_verbs(subcommands, _output_of_four(), _Parser)

    migrate = subcommands.add_parser(
        "migrate",
        parents=[url],
        help="create the tables, or upgrade them to the newest version",
        description="Create the tables, or upgrade them to the newest version. They are never downgraded. If one of the"
        " tables is missing, it is created again, empty. A backend also creates and upgrades the tables at its first"
        " use, but it does not replace a missing one. Run this as a database user who may create tables.",
    )
    migrate.add_argument(
        "--sql", action="store_true", help="print the statements for a user who may change tables, and change nothing"
    )
    migrate.add_argument(
        "--sink", action="store_true", help="make the table of positions of a SqlSink there, and not those of a backend"
    )
    migrate.set_defaults(run="database:migrate")

    cleanup = subcommands.add_parser(
        "cleanup",
        parents=[url, output],
        help="delete the values that have expired",
        description="Delete the values that have expired. Values that Airflow may refer to are kept. With --airflow,"
        " its references are collected, and values to which none leads are deleted too, if they are older than an hour."
        " If a part fails, the exit code is 1: run it again.",
    )
    add_airflow(cleanup)
    cleanup.add_argument(
        "--all-gone",
        action="store_true",
        help="with --airflow: go on although Airflow has no reference at all, as when all of its Dag runs were deleted",
    )
    cleanup.add_argument("--dry-run", action="store_true", help="print every value and what would become of it")
    cleanup.set_defaults(run="database:cleanup")

    rotate = subcommands.add_parser(
        "rotate",
        parents=[url, output],
        help="encrypt all values under the newest key",
        description="Encrypt all values and their older versions under the newest key, also those in plain text."
        " Tasks may run meanwhile. The command may be interrupted and run again. A value that cannot be decrypted or"
        " written stays as it is; the others are still encrypted, and the exit code is 1.",
    )
    rotate.add_argument(
        "--codec",
        help="fernet, or an object to import (module.name), also from the current folder. Default:"
        " [airflow_resume] backend_codec of the configuration",
    )
    rotate.set_defaults(run="database:rotate")

    conformance = subcommands.add_parser(
        "conformance",
        help="test a state store, or a backend of Airflow's, with StoreContract",
        description="Test a state store, or a backend of Airflow's, with StoreContract. The factory is called for each"
        " test. It returns an empty store, an empty backend, or a function that opens the same place each time it is"
        " called, in any process (the tests with several processes need that). It may also return a context manager"
        " that gives one of these. The exit code is 1 if a test failed.",
    )
    conformance.add_argument("factory", metavar="MODULE:FACTORY", help="a function without arguments")
    conformance.add_argument("-k", dest="select", metavar="EXPRESSION", help="only these tests, as with pytest -k")
    _add_output(conformance)
    conformance.set_defaults(run="conformance:run")

    doctor = subcommands.add_parser(
        "doctor",
        parents=[url, output],
        help="look at a database, a running Airflow, or Dags, and say what is wrong",
        description="Look at a database and say what is wrong with it, and what to do. With --airflow, look at a"
        " running Airflow instead: its versions, settings and clocks, and the records that are in trouble; with a URL"
        " as well, also for values in this database whose run is gone. With --dags, look at the tasks of a folder of"
        " Dags instead, and say what a SIGKILL, a deploy, a clear and a retry would do to each of them. Nothing is"
        " changed. The exit code is 1 if there is an error: with --dags, a task that may have two jobs, a file"
        " that cannot be imported, or an item of [airflow_resume] upgrade that cannot be used.",
    )
    add_airflow(doctor)
    doctor.add_argument("--dags", metavar="FOLDER", help="a folder of Dags, or a file")
    doctor.set_defaults(run="doctor:run")

    completion = subcommands.add_parser(
        "completion",
        help="print a script that completes this command in a shell",
        description='Print a script that completes this command in a shell. For bash, put `eval "$(airflow-resume'
        ' completion bash)"` into ~/.bashrc; the same for zsh in ~/.zshrc; for fish, `airflow-resume completion fish |'
        " source` into ~/.config/fish/config.fish.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(run="completion:run", parser=parser)

    new_id = subcommands.add_parser(
        "new-id",
        parents=[url],
        help="give a copied database an id of its own",
        description="Give a copied database, such as a copy of production for staging, an id of its own. Then no"
        " reference of one database leads to a value of the other. References that were copied with it become errors.",
    )
    new_id.add_argument("--back", action="store_true", help="give it the id that it had before the last one")
    new_id.set_defaults(run="database:new_id")
    return parser


def _output_of_four() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False)
    forms = ("table", "json", "yaml", "plain")
    parser.add_argument("-o", "--output", choices=forms, default="table", help="default: table")
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="as --output json")
