"""What a person can ask for on the page: the changes of each kind of records, with their fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_resume.errors import UsageError

MOST_BYTES = 64_000
"""Of a form."""
MOST_FIELDS = 40
MOST_OF_WHY = 500


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form.

    Args:
        name: as `operating.verbs` calls it. `label`: for the person.
        kind: what is typed. `required`: something has to be typed.
    """

    name: str
    label: str
    kind: Literal["text", "number", "checkbox"] = "text"
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Form:
    """A change that can be asked for.

    Args:
        verb: its name in `operating.verbs`. `label`: of its button. `text`: what the next attempt does.
    """

    verb: str
    label: str
    text: str
    fields: tuple[Field, ...] = ()


UNDO = Form(verb="undo", label="Undo", text="As before the last change, if no attempt has gone by it yet.")
FORMS: Mapping[str, tuple[Form, ...]] = {
    "jobs": (
        Form(
            verb="adopt",
            label="Adopt a job",
            text="The next attempt waits for this job.",
            fields=(
                Field(name="id", label="Id of the job, as its system has it", required=True),
                Field(name="as_json", label="The id is JSON, such as a number", kind="checkbox"),
            ),
        ),
        Form(
            verb="forget",
            label="Forget the job",
            text="The next attempt submits another job. A job that runs is not ended by this.",
        ),
    ),
    "loops": (
        Form(verb="resume", label="Resume", text="The next attempt continues where the loop is, also after a clear."),
        Form(
            verb="rewind",
            label="Rewind",
            text="The next attempt continues at an earlier element. Give its number, or else a position.",
            fields=(
                Field(name="to", label="Number of the element, counted from 1", kind="number"),
                Field(name="position", label="Position, as JSON"),
                Field(name="done", label="Elements before this position", kind="number"),
            ),
        ),
        Form(verb="skip", label="Skip one element", text="The next attempt passes over the element that is next."),
        Form(verb="restart", label="Restart", text="The next attempt starts over at the first element."),
    ),
    "marks": (
        Form(
            verb="rewind",
            label="Rewind",
            text="The next run loads this part again. Give a distance, or else an earlier value.",
            fields=(Field(name="by", label="Distance, such as 3d or 12h"), Field(name="to", label="Earlier value")),
        ),
        Form(
            verb="set",
            label="Set",
            text="The next run loads from this value on.",
            fields=(Field(name="to", label="Value", required=True),),
        ),
        Form(verb="reset", label="Reset", text="The next run begins at the initial value."),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A form that was sent.

    Args:
        form: which. `given`: its fields, for `operating.verbs`; `typed`: the same as texts, to be sent again.
        key: of the record. `record`: its digest, as it was shown.
        why: may be None. `force`: what was typed to force the change. `token`: see `access`.
    """

    form: Form
    given: Mapping[str, Any]
    typed: Mapping[str, str]
    key: str
    record: str
    why: str | None
    force: str
    token: str


def asked(noun: str, sent: Mapping[str, str]) -> Asked:
    """What was sent, read.

    Raises:
        UsageError: there is no such change, or a field cannot be read.
    """
    verb = sent.get("verb", "")
    form = next((each for each in (*FORMS[noun], UNDO) if each.verb == verb), None)
    if form is None:
        raise UsageError(f"There is no change {verb!r} of {noun}.", name=verb)
    typed = {field.name: sent[field.name].strip() for field in form.fields if sent.get(field.name, "").strip()}
    for field in form.fields:
        if field.required and field.name not in typed:
            raise UsageError(f"{field.label}: this is missing.", name=field.name)
    given = {field.name: _read(noun, field, typed.get(field.name)) for field in form.fields}
    if {"by", "to"} <= given.keys() and (given["by"] is None) == (given["to"] is None):
        raise UsageError("Give a distance or a value, and not both.", name="by")
    if given.get("to") is not None and (given.get("position") is not None or given.get("done") is not None):
        raise UsageError("Give the number of the element or a position, and not both.", name="to")
    return Asked(
        form=form,
        given=given,
        typed=typed,
        key=sent.get("key", ""),
        record=sent.get("record", ""),
        why=sent.get("why", "").strip()[:MOST_OF_WHY] or None,
        force=sent.get("force", "").strip(),
        token=sent.get("token", ""),
    )


def _read(noun: str, field: Field, text: str | None) -> Any:
    if field.kind == "checkbox":
        return text is not None
    if text is None or field.kind != "number":
        return text
    if not text.isascii() or not text.isdecimal() or len(text) > 18:  # noqa: PLR2004  what a 64-bit integer can have
        raise UsageError(f"{field.label}: {text!r} is no number.", name=f"{noun}.{field.name}")
    return int(text)
