"""How an error carries its data: a field is an annotated attribute of its class, and a keyword argument of it."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal, TypeVar

from typing_extensions import dataclass_transform

from airflow_resume.shown import shown, shown_lines

T = TypeVar("T")


def text_argument(*, default: T, kw_only: Literal[False]) -> T:  # noqa: ARG001  type checkers read it: it is positional
    """The text of an error that may be given by position: its message, or the remedy."""
    return default


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(text_argument,))
class DeclaredError(Exception):
    """An exception whose annotated attributes are its keyword arguments, for type checkers as well as at run time.

    `ResumeError` is the base to inherit from; it declares the message and the remedy.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """The names of the fields, those of the bases first."""
    HAS_LINES: ClassVar[bool] = False
    """Whether its message may have several lines. In others an id could begin a line that looks like one of ours."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [name for name, kind in inspect.get_annotations(cls).items() if "ClassVar" not in str(kind)]
        inherited = [name for base in reversed(cls.__mro__) for name in vars(base).get("FIELDS", ())]
        cls.FIELDS = tuple(name for name in dict.fromkeys([*inherited, *own]) if name not in {"message", "remedy"})
        for name in own:
            if name not in vars(cls):  # an error without a required field is better than no error
                setattr(cls, name, None)

    def __init__(self, message: str = "", remedy: str | None = None, **fields: Any) -> None:
        if not message:
            message = (inspect.getdoc(type(self)) or "").partition("\n")[0]
            remedy = remedy or self.remedy
        self.message = shown_lines(message) if self.HAS_LINES else shown(message)
        self.remedy: str | None = shown(remedy) if remedy else remedy
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise TypeError(f"{type(self).__name__} has no field {name!r}: {', '.join(self.FIELDS) or 'none'}")
            setattr(self, name, value)
        # Two arguments, so that a copy of the error, which is made from them, has the two on separate lines again.
        super().__init__(*((self.message, self.remedy) if self.remedy else (self.message,)))
