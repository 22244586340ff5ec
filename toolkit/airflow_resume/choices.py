"""Arguments that are one of a few words, checked where they are given."""

from __future__ import annotations

from typing import Any, get_args


def check_choice(name: str, value: object, literal: Any) -> None:
    """Refuse a value that is not one of those of a `Literal` type.

    Raises:
        ValueError: naming the choices there are.
    """
    choices = get_args(literal)
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not a choice; take one of {', '.join(map(repr, choices))}")
