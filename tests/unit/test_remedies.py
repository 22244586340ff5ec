"""What to do about an error stands on a line of its own, everywhere: Airflow's log view wraps no lines."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_resume import errors
from airflow_resume.errors import MissingDriverError, NoStateStoreError, ResumeError, WatermarkLostError

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "toolkit" / "airflow_resume", ROOT / "mixins" / "airflow_resume_mixins"]
VERBS = (
    "Allow|Add|Ask|Build|Call|Check|Choose|Clear|Consume|Decode|Delete|Do|Flatten|Give|Grant|Hand|Install|Iterate|Keep|"
    "Leave|List|Load|Look|Make|Name|Pass|Pull|Put|Raise|Read|Remove|Replace|Return|Run|Save|Say|Schedule|See|Select|Set|"
    "Sort|Start|Store|Swap|Take|Trigger|Try|Turn|Type|Upgrade|Use|Wait|Write|Yield"
)
REMEDY = re.compile(rf"[.;:?!] +({VERBS})\b", re.IGNORECASE)
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, ResumeError)}
OTHERS = {"TypeError", "ValueError", "LookupError", "RuntimeError", "refusal"}
LOGS = {"warning", "error", "exception", "info", "warn"}


def texts_of(node: ast.expr) -> Iterator[str]:
    """The text of a message, with an X for all that is put into it."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join("".join(texts_of(part)) or "X" for part in values)
        case ast.IfExp(body=body, orelse=orelse):
            yield from texts_of(body)
            yield from texts_of(orelse)
        case ast.BinOp(left=left, right=right):
            yield "".join([*texts_of(left), *texts_of(right)])


def is_message(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in ERRORS | OTHERS
        case ast.Attribute(value=ast.Name(id="log" | "warnings"), attr=name):
            return name in LOGS
    return False


def misplaced_in(source: str) -> list[str]:
    """What is told to do behind something else, on one line of a message."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and is_message(node)]
    arguments = [argument for call in calls for argument in call.args]
    # The second argument of an error is its remedy, which may be as long as it likes.
    remedies = {id(call.args[1]) for call in calls if isinstance(call.func, ast.Name) and len(call.args) > 1}
    lines = [
        line
        for argument in arguments
        if id(argument) not in remedies
        for text in texts_of(argument)
        for line in [text.partition("\n")[0]]
    ]
    return [line for line in lines if REMEDY.search(line)]


def files() -> list[Path]:
    return [path for folder in SOURCES for path in sorted(folder.rglob("*.py"))]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_remedy_stands_on_a_line_of_its_own(path: Path) -> None:
    assert misplaced_in(path.read_text()) == []


@pytest.mark.parametrize(
    "call",
    [
        'raise LoopError("It is so. Give it a name.")',
        'raise LoopError(f"{it} is so; give it a name")',
        'raise LoopError(f"It is {so}: pass a list" if so else "No")',
        'raise ValueError("It is so, and not otherwise. " "See what it is.")',
        'log.warning("It is %s. Upgrade it.", so)',
        'refusal(value, what="x", why="y", remedy="z") if LoopError("Is it so? Set it.") else None',
    ],
)
def test_a_remedy_behind_a_sentence_is_found(call: str) -> None:
    assert len(misplaced_in(call)) == 1


@pytest.mark.parametrize(
    "call",
    [
        'raise LoopError("It is so.", "Give it a name. Or take another.")',
        'raise ValueError("It is so.\\nGive it a name.")',
        'raise LoopError("Use it in a with statement.")',
        'raise LoopError("It is so. Nothing was touched.")',
        'other("It is so. Give it a name.")',
    ],
)
def test_anything_else_is_left_alone(call: str) -> None:
    assert misplaced_in(call) == []


def unended_in(source: str) -> list[str]:
    """Messages that a remedy follows, and that do not end as a sentence does."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and is_message(node)]
    found = []
    for call in calls:
        has_remedy = isinstance(call.func, ast.Name) and call.func.id in ERRORS and len(call.args) > 1
        for text in [text for argument in call.args[:1] for text in texts_of(argument)]:
            first, newline, _ = text.partition("\n")
            if (has_remedy or newline) and not first.endswith((".", "?", "!", ":", "X", ". %s")):
                found.append(first)
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_message_ends_as_a_sentence_where_a_remedy_follows(path: Path) -> None:
    assert unended_in(path.read_text()) == []


@pytest.mark.parametrize(
    "call",
    ['LoopError(f"{it} is so", "Give it a name.")', 'ValueError(f"It is " f"{so} here\\nSet it.")'],
)
def test_a_message_without_its_end_is_found(call: str) -> None:
    assert len(unended_in(call)) == 1


def test_the_defaults_of_the_classes_keep_to_it() -> None:
    kinds = [getattr(errors, name) for name in sorted(ERRORS)]
    assert [kind.__name__ for kind in kinds if REMEDY.search(str(kind()).partition("\n")[0])] == []


# --- the errors -----------------------------------------------------------------------------------------------


def test_an_error_says_what_happened_and_below_it_what_to_do() -> None:
    error = ResumeError("It is so.", "Give it a name.")
    assert str(error) == "It is so.\nGive it a name."
    assert (error.message, error.remedy) == ("It is so.", "Give it a name.")


def test_without_a_remedy_there_is_one_line() -> None:
    error = NoStateStoreError("It is so.")
    assert str(error) == "It is so."
    assert error.remedy is None


def test_without_a_message_the_class_says_both() -> None:
    error = NoStateStoreError()
    assert error.message == "There is no state store here."
    assert str(error) == f"{error.message}\nRun this inside an Airflow task, or pass `store=`."
    assert str(ResumeError()) == "Resuming failed."


@pytest.mark.parametrize("kind", [ResumeError, NoStateStoreError, MissingDriverError, WatermarkLostError])
@pytest.mark.parametrize("arguments", [(), ("It is so.",), ("It is so.", "Give it a name.")])
def test_an_error_that_was_pickled_or_copied_is_the_same(kind: type[ResumeError], arguments: tuple[str, ...]) -> None:
    error = kind(*arguments)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301  our own
        assert type(other) is kind
        assert (str(other), other.message, other.remedy) == (str(error), error.message, error.remedy)
        assert other.args == error.args
