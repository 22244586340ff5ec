"""A module of the pack that imports a class when it is first used. The provider of one of them is not installed."""

from __future__ import annotations

from importlib import import_module

__all__ = ["AbsentOperator", "TrainOperator"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{name.removesuffix('Operator').lower()}"), name)
