"""Extensions of Griffe: what the reference leaves out, and how it reads the fields of errors."""

from __future__ import annotations

import re
from typing import Any

import griffe

CALLED_BY_USERS = {"__call__", "__getitem__"}


class LeftOut(griffe.Extension):
    """Special methods that nobody calls by their names: without a docstring they are left out."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Take the docstring of such a method."""
        if func.name.startswith("__") and func.name not in CALLED_BY_USERS:
            func.docstring = None


class Fields(griffe.Extension):
    """What a docstring lists under `Fields:` are attributes."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Name the section as Griffe does."""
        if cls.docstring is not None:
            cls.docstring.value = re.sub(r"^Fields:$", "Attributes:", cls.docstring.value, flags=re.MULTILINE)
