"""`airflow-resume doctor --dags`: what a SIGKILL, a deploy, a clear and a retry do to each task of a folder.

The Dags are loaded as Airflow loads them, with its policies, so a task that `[airflow_resume] upgrade` upgrades is seen
as such. Nothing is run. How the facts about a task are found stands in `dag_facts`, what they mean in `dag_findings`.

A Dag file may do what it likes when it is imported: end the process, print, or register what is called at the end. So
the files are read in a child process, which sends what it finds through a pipe. If it ends early, the file that it was
reading is named, and another child reads the others.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from airflow_resume.command.console import lines, shown
from airflow_resume.errors import UsageError
from airflow_resume_mixins import dag_findings
from airflow_resume_mixins.dag_facts import facts_of
from airflow_resume_mixins.dag_findings import Level, TaskFacts
from airflow_resume_mixins.providers import policy
from airflow_resume_mixins.providers.twins import read_twins
from airflow_resume_mixins.providers.upgrade import upgrade_dag

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag


@dataclass(frozen=True, kw_only=True)
class Folder:
    """What was found in a folder of Dags."""

    dags: int
    tasks: Sequence[Mapping[str, Any]]
    import_errors: Mapping[str, str]
    setting_errors: Sequence[tuple[str, str]]
    """What is wrong, and what to do."""

    @property
    def is_bad(self) -> bool:
        """Whether a task may have two jobs, or something could not be read, or there is nothing to read."""
        is_error = any(each["level"] == Level.ERROR.value for each in self.tasks)
        return bool(self.import_errors or self.setting_errors or is_error or not self.dags)


def run(options: argparse.Namespace) -> int:
    """Examine the folder, and print what was found."""
    folder = examine(Path(options.dags))
    if options.output == "json":
        found = {
            "dags": folder.dags,
            "tasks": folder.tasks,
            "import_errors": folder.import_errors,
            "setting_errors": ["\n".join(filter(None, error)) for error in folder.setting_errors],
        }
        print(json.dumps(found, indent=2))
    else:
        for line in _text(folder, options.dags):
            print(line)
    return 1 if folder.is_bad else 0


def _text(folder: Folder, place: str) -> Iterator[str]:
    columns = ("level", "task", "operator", *(event.value.lower() for event in dag_findings.Event))
    heading, *others = lines(
        [name.upper() for name in columns], [[each[name] for name in columns] for each in folder.tasks]
    )
    yield heading
    for each, line in zip(folder.tasks, others, strict=True):
        yield line
        yield from (f"         ! {shown(warning)}" for warning in each["warnings"])
        if each["remedy"]:
            yield f"         -> {shown(each['remedy'])}"
    for file, error in folder.import_errors.items():
        yield f"error    {shown(file)} cannot be imported: {shown(error.strip().splitlines()[-1])}"
    for message, remedy in folder.setting_errors:
        yield f"error    {shown(message)}"
        yield f"         -> {shown(remedy)}"
    if not folder.dags and not folder.import_errors:
        yield f"error    There is no Dag in {shown(place)}."
        yield "         -> Airflow reads only files with the words 'airflow' and 'dag' in them, and no ignored ones."


def _described(task: Any, dag_id: str, facts: TaskFacts) -> dict[str, Any]:
    found = dag_findings.effects(facts)
    return {
        "task": f"{dag_id}.{task.task_id}",
        "operator": task.operator_class.__name__,
        "kind": facts.kind.value,
        "level": dag_findings.level(facts).value,
        **{event.value.lower(): effect.value for event, effect in found.items()},
        "warnings": dag_findings.warnings(facts),
        "remedy": dag_findings.remedy(facts),
    }


# --- in a child -----------------------------------------------------------------------------------------------


def examine(folder: Path) -> Folder:
    """Load the Dags of a folder or a file, and gather what is known of their tasks.

    Args:
        folder: of Dags.

    Raises:
        UsageError: there is no such folder, or its files cannot be read.
    """
    if not folder.exists():
        raise UsageError(f"There is no folder {folder}.", "Name the folder of the Dags, or a file in it.")
    fatal: dict[str, str] = {}
    while True:
        file, found, end = _read_by_a_child(folder.resolve(), fatal)
        if found is not None:
            return Folder(**{**found, "import_errors": {**found["import_errors"], **fatal}})
        if file is None or file in fatal:
            raise UsageError(f"The process that reads {folder} has ended ({end}).", "See above for what it printed.")
        fatal[file] = f"it ends the process that reads it ({end})"


def _read_by_a_child(folder: Path, fatal: Mapping[str, str]) -> tuple[str | None, dict[str, Any] | None, str]:
    """The file that was read last, what was found in all, or None, and how the child ended."""
    sys.stdout.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  it is not measured there
        os.close(reader)
        _read_and_end(folder, fatal, writer)
    os.close(writer)
    file: str | None = None
    found: dict[str, Any] | None = None
    try:
        with os.fdopen(reader, encoding="utf-8") as messages:
            for message in map(json.loads, messages):
                file, found = message.get("file", file), message.get("found")
                if found is not None:
                    break
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return file, found, _said(os.waitpid(child, 0)[1])


def _said(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _read_and_end(folder: Path, fatal: Mapping[str, str], writer: int) -> NoReturn:  # pragma: no cover
    """What is printed goes to stderr; what is to be called at the end of the process is not called."""
    code = 1
    try:
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        with os.fdopen(writer, "w", encoding="utf-8") as messages:
            json.dump({"found": _found(folder, fatal, messages)}, messages)
            messages.write("\n")
        code = 0
    except BaseException:  # noqa: BLE001  a child must not return to what its parent does
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _found(folder: Path, fatal: Mapping[str, str], messages: TextIO) -> dict[str, Any]:
    items, exceptions = policy.setting()
    errors: dict[str, str] = {}
    try:
        bag = _loaded(folder, fatal, messages)
    except Exception as error:  # noqa: BLE001  such as that of a symbolic link to a folder that it is in
        return {"dags": 0, "tasks": [], "import_errors": {str(folder): f"{error}"}, "setting_errors": []}
    errors |= bag.import_errors
    outcomes = {dag_id: upgrade_dag(dag, items, exceptions) for dag_id, dag in bag.dags.items()}
    tasks = [
        _described(task, dag_id, facts_of(task, outcomes[dag_id][task.task_id]))
        for dag_id, dag in bag.dags.items()
        for task in dag.tasks
    ]
    wrong = [(error.message, error.remedy or "") for error in read_twins(items).errors]
    return {"dags": len(bag.dags), "tasks": tasks, "import_errors": errors, "setting_errors": wrong}


def _loaded(folder: Path, fatal: Mapping[str, str], messages: TextIO) -> DagBag:
    from airflow.dag_processing.dagbag import BundleDagBag

    class Bag(BundleDagBag):
        """It tells which file it reads, and takes what a file raises for an error of this file."""

        def process_file(self, filepath: str, *args: Any, **options: Any) -> Any:
            read = super().process_file
            return self._guarded(filepath, lambda: read(filepath, *args, **options))  # type: ignore[no-untyped-call]

        def _process_definition(self, importer: Any, definition: Any, **options: Any) -> Any:  # Airflow 3.4
            read = super()._process_definition  # type: ignore[misc]
            return self._guarded(repr(definition), lambda: read(importer, definition, **options))

        def _guarded(self, path: str, read: Callable[[], Any]) -> Any:
            file = self._get_relative_fileloc(path)
            if file in fatal:
                return []
            messages.write(json.dumps({"file": file}) + "\n")
            messages.flush()
            try:
                return read()
            except BaseException as error:  # noqa: BLE001  SystemExit, KeyboardInterrupt
                self.import_errors[file] = f"{type(error).__name__}: {error}".rstrip(": ")
                return []

    return Bag(folder, bundle_path=folder if folder.is_dir() else folder.parent)
