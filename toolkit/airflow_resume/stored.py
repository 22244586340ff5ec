"""The base of the models of records. They are frozen, keep fields that they do not know, and validate each change.

`record.changed(status=..., phase=...)` returns a changed copy, and is the only way to change a record. For each class a
`TypedDict` lists the fields that may change and their types. So a type checker finds a misspelt name or a wrong type.
At run time each changed field is validated as the model does it, and then the whole record is checked for
contradictions. The other fields were validated when they were read or made, and are not validated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, create_model, model_validator

from airflow_resume.errors import InvalidValueError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typing_extensions import Self


class StoredModel(BaseModel):
    """A record, or a part of one. A subclass has a method `changed` with the fields that may change."""

    model_config = ConfigDict(defer_build=True, extra="allow", frozen=True, populate_by_name=True)

    def check(self) -> None:
        """Refuse fields that contradict each other.

        Raises:
            ValueError: two fields contradict each other.
        """

    @model_validator(mode="after")
    def _is_checked(self) -> Self:
        self.check()
        return self

    def with_changes(self, changes: Mapping[str, object]) -> Self:
        """A copy with other values in these fields. `changed` calls it, and declares their types. Unknown fields stay.

        Raises:
            InvalidValueError: there is no such field, a value has the wrong type, or two fields contradict each other.
        """
        kind = type(self)
        try:
            checked = vars(_changes_of(kind).validate_python(changes, strict=True))
            changed = self.model_copy(update={name: checked[name] for name in changes})
            changed.check()
        except ValidationError as error:
            raise InvalidValueError(f"A {kind.__name__} cannot be changed so: {places_of(error)}.") from error
        except ValueError as error:
            raise InvalidValueError(f"A {kind.__name__} cannot be changed so: {error}.") from error
        return changed


def places_of(error: ValidationError) -> str:
    """The first three places that pydantic complains about, and why."""
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])


@cache
def _changes_of(kind: type[StoredModel]) -> Any:
    """A validator of values for some fields of a model, which refuses unknown names."""
    kind.model_rebuild()
    fields: dict[str, Any] = {name: (_type_of(field), None) for name, field in kind.model_fields.items()}
    config = ConfigDict(extra="forbid")
    return create_model(f"Changes of {kind.__name__}", __config__=config, **fields).__pydantic_validator__


def _type_of(field: FieldInfo) -> Any:
    """The type of a field with its constraints, such as a minimum.

    The state of a user may be large. It is checked to be JSON when the record is written, so not here as well.
    """
    if field.annotation == dict[str, JsonValue]:
        return dict[str, Any]
    annotated: Any = Annotated
    parts = (field.annotation, *field.metadata)
    return annotated[parts] if field.metadata else field.annotation
