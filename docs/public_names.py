"""What of the public names is not explained: `python docs/public_names.py` prints it, and exits with 1.

Public is what `__all__` of a surface names, and of that what has no underscore, inherited or not. The packages are
read, and not imported. These are faults:

- a class, function, method or attribute without a docstring. A field or an attribute may have an entry under `Args:` or
  `Attributes:` (errors: `Fields:`) of its class instead;
- a parameter without an entry under `Args:`, and an entry that is about no parameter. Those of a constructor have
  theirs in the class; where its docstring says by whom it is made (`Made by`), nobody else passes any;
- an error that the function itself raises, and that has no entry under `Raises:` there or in its class.

A method that overrides one of ours may leave to it whatever it does not say itself. What Airflow calls is Airflow's to
explain, and the name of a test says what it is about.
"""

from __future__ import annotations

import ast
import logging
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "toolkit", ROOT / "mixins")
SURFACES = (
    "airflow_resume",
    "airflow_resume.backends",
    "airflow_resume.errors",
    "airflow_resume.jobs",
    "airflow_resume.loops",
    "airflow_resume.testing",
    "airflow_resume.testing.contract",
    "airflow_resume.testing.operators",
    "airflow_resume.testing.oracles",
    "airflow_resume.watermarks",
    "airflow_resume_mixins",
)
"""What users import from. Of one without `__all__` all classes and functions are public that it has itself."""

ANY_ERROR = "..."
"""`...:` under Raises, where every error is treated alike."""
OF_AIRFLOW = {
    "SqlStoreBackend": {
        *("get", "set", "delete", "clear", "aget", "aset", "adelete", "aclear"),
        *("serialize_task_state_store_to_ref", "serialize_asset_state_store_to_ref"),
        *("deserialize_task_state_store_from_ref", "deserialize_asset_state_store_from_ref"),
    },
    "HardenedMetastoreBackend": {
        *("get", "set", "delete", "clear", "aget", "aset", "adelete", "aclear"),
        *("set_asset_state_store", "aset_asset_state_store"),
    },
    "ResumableJobMixin": {"defer", "on_kill", "log", "resume_execution", "poll_until_complete", "get_job_result"},
    "WatermarkMixin": {"execute", "resume_execution"},
    "JobTrigger": {"serialize", "run", "on_kill", "cleanup"},
}
"""By class, what has the names and parameters of Airflow's own."""


def undocumented(names: Sequence[str] = SURFACES, folders: Sequence[Path] = FOLDERS) -> list[str]:
    """One line for each fault, each once."""
    loader = griffe.GriffeLoader(search_paths=folders, docstring_parser="google", allow_inspection=False)
    for package in dict.fromkeys(name.partition(".")[0] for name in names):
        loader.load(package)
    loader.resolve_aliases(implicit=True, external=False)
    public = [each for name in names for each in _public_in(loader.modules_collection[name])]
    return list(dict.fromkeys(fault for each in public for fault in _faults(each)))


def _public_in(module: Any) -> Iterator[Any]:
    if module.exports is None:
        yield from (each for each in module.members.values() if _is_own(each))
    else:
        yield from (_itself(module[str(getattr(name, "name", name))]) for name in module.exports)


def _is_own(each: Any) -> bool:
    return not each.is_alias and (each.is_class or each.is_function) and not each.name.startswith("_")


def _itself(each: Any) -> Any:
    return each.final_target if each.is_alias else each


def _faults(each: Any) -> Iterator[str]:
    if each.is_class:
        yield from _faults_of_class(each)
    elif each.is_function:
        yield from _faults_of_function(each)
    elif not each.has_docstring:
        yield f"{each.path}: no docstring"


# --- classes ----------------------------------------------------------------------------------------------------


def _faults_of_class(each: Any) -> Iterator[str]:
    if not each.has_docstring:
        yield f"{each.path}: no docstring"
    family = [each, *(base for base in each.mro() if _is_ours(base))]
    told = {name for base in family for name in _entries(base)}
    if not any("Made by " in base.docstring.value for base in family if base.has_docstring):
        constructor = each.all_members.get("__init__")
        for name in _parameters(_itself(constructor)) if constructor else ():
            if name not in told and not _is_said_below(name, each):
                yield f"{each.path}({name}=): no entry under Args"
    for member in map(_itself, each.all_members.values()):
        if member.name.startswith(("_", "test_")) or not _is_ours(member) or _is_fixture(member):
            continue
        if any(member.name in OF_AIRFLOW.get(base.name, ()) for base in family):
            continue
        if member.is_function:
            yield from _faults_of_function(member, family)
        elif member.is_attribute and member.name not in told and not _said(member, family):
            yield f"{member.path}: no docstring"


def _is_ours(each: Any) -> bool:
    return each.path.partition(".")[0] in _OURS


_OURS = {name.partition(".")[0] for name in SURFACES}


def _is_said_below(name: str, each: Any) -> bool:
    """A field of a dataclass may have a docstring of its own."""
    found = each.all_members.get(name)
    return bool(found and _itself(found).has_docstring)


def _is_fixture(member: Any) -> bool:
    """Of pytest: whoever supplies one is told by the class."""
    return member.is_function and any("fixture" in str(each.value) for each in member.decorators)


def _said(member: Any, family: Iterable[Any]) -> list[Any]:
    """The member in all classes that have it and say something of it."""
    found = [base.members[member.name] for base in family if member.name in base.members]
    return [each for each in found if not each.is_alias and each.has_docstring]


# --- functions --------------------------------------------------------------------------------------------------


def _faults_of_function(function: Any, family: Sequence[Any] = ()) -> Iterator[str]:
    said = _said(function, family) if family else [function] * function.has_docstring
    if not said:
        yield f"{function.path}: no docstring"
        return
    entries, parameters = {name for each in said for name in _entries(each)}, _parameters(function)
    for name in parameters:
        if name not in entries:
            yield f"{function.path}({name}=): no entry under Args"
    for name in sorted(_entries(function) - {*parameters}):
        yield f"{function.path}: an entry under Args is about {name}, which is no parameter"
    told = {word for each in (*said, *family) for word in _errors_told(each)}
    for name in sorted(_errors_raised(function) - told if ANY_ERROR not in told else ()):
        yield f"{function.path}: raises {name}, and has no entry for it under Raises"


def _parameters(function: Any) -> list[str]:
    if not function.is_function or "property" in function.labels:
        return []
    names = [parameter.name.lstrip("*") for parameter in function.parameters]
    return [name for name in names if name not in {"self", "cls", "kwargs"} and not name.startswith("_")]


def _errors_raised(function: Any) -> set[str]:
    """The errors that are made after `raise` in the function itself."""
    (node,) = ast.parse(textwrap.dedent("\n".join(function.lines))).body
    made = [each.exc for each in ast.walk(node) if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call)]
    names = {call.func.id for call in made if isinstance(call.func, ast.Name)}
    return {name for name in names if name.endswith("Error") and name != "AssertionError"}


# --- docstrings -------------------------------------------------------------------------------------------------


def _entries(each: Any) -> set[str]:
    kinds = ("parameters", "other parameters", "attributes")
    return {entry.name.lstrip("*") for kind in kinds for entry in _section(each, kind)}


def _errors_told(each: Any) -> set[str]:
    """The words that stand under Raises: one entry may name several errors."""
    texts = (f"{entry.annotation} {entry.description}" for entry in _section(each, "raises"))
    return {word for text in texts for word in re.findall(r"\w+|\.\.\.", text)}


def _section(each: Any, kind: str) -> list[Any]:
    if not each.has_docstring:
        return []
    # Errors call what they carry their fields; for Griffe these are attributes.
    text = re.sub(r"^Fields:$", "Attributes:", each.docstring.value, flags=re.MULTILINE)
    sections = griffe.Docstring(text, parent=each, parser="google").parsed
    return [entry for section in sections if section.kind.value == kind for entry in section.value]


def main() -> int:
    """Print the faults; 1 if there are any."""
    logging.getLogger("griffe").setLevel(logging.CRITICAL)
    faults = undocumented()
    for fault in faults:
        print(fault)
    if faults:
        print(f"{len(faults)} public names or parameters are not explained: give them docstrings and entries.")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
