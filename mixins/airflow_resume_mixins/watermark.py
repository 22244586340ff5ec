"""Operators that load new rows, with `airflow_resume.watermark`."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.errors import WindowNotReadError
from airflow_resume.watermarks import Watermark, Window
from airflow_resume.watermarks.taskflow import finished

if TYPE_CHECKING:
    from airflow.sdk import Context

FAILED_TRIGGER = "__fail__"
"""The name that Airflow gives to the next method if the trigger has failed or timed out."""


class WatermarkMixin:
    """For an operator that loads a window: it defines `watermark` and `execute_window`.

        class LoadOrders(WatermarkMixin, BaseOperator):
            watermark = watermark(ORDERS, initial="2026-01-01T00:00:00Z", delay=timedelta(minutes=2))

            def execute_window(self, context, window):
                ...

    The asset is added to `inlets` and `outlets`. Only one instance runs at a time, because all instances use the same
    mark. The operator returns what `execute_window` returns, and then the mark moves.

    The operator may defer. Then the mark moves when the method that continues has returned. If that method has a
    parameter `window`, it gets the window, with the same bounds. The parameter is required if the mark depends on what
    the body has read or said (`advance="observed"`, `"explicit"`), or if the operator starts from its trigger. If the
    body has already read rows, or said something about them, a deferral is refused, because this would be lost.

    Raises:
        TypeError: when the operator is made, if it has no `watermark`, or if it starts from its trigger and the method
            that continues has no `window`; when it has run, if `execute_window` returned an iterator or a coroutine,
            as then its work is not done.
    """

    watermark: ClassVar[Watermark[Any]]
    """The watermark. The operator may also set it in its own `__init__`, before it calls that of its base."""

    def _hook_apply_defaults(self, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Airflow calls this before each `__init__` of an operator's classes."""
        mark = getattr(self, "watermark", None)
        if not isinstance(mark, Watermark):
            raise TypeError(
                f"{type(self).__name__} needs `watermark = watermark(asset, initial=...)` on the class, or on the"
                f" object before super().__init__()"
            )
        starts = kwargs.get("start_from_trigger", getattr(self, "start_from_trigger", False))
        start: Any = kwargs.get("start_trigger_args", getattr(self, "start_trigger_args", None)) if starts else None
        method: str | None = getattr(start, "next_method", None)
        if method is not None and not _takes_window(getattr(self, method)):
            raise TypeError(f"{_starts_without(self, method)}\n{_give_it(method)}")
        hook: Any = getattr(super(), "_hook_apply_defaults", None)
        args, kwargs = ((), kwargs) if hook is None else hook(**kwargs)
        return args, mark.task_options(kwargs)

    def execute(self, context: Context) -> Any:
        """Load the window; the mark moves when `execute_window` has returned."""
        with self.watermark.open(context, deferrable=True) as window:
            return finished(self.execute_window(context, window), f"execute_window of {type(self).__name__}")

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As in Airflow, after a deferral, with the window that was open then; the mark moves when the method returns.

        Raises:
            WindowNotReadError: the method has not read what the mark would move over; or it defers again, after it has
                read rows or said something about them.
        """
        go_on: Any = super().resume_execution  # type: ignore[misc]
        if next_method == FAILED_TRIGGER:
            return go_on(next_method, next_kwargs, context)
        takes_window = _takes_window(getattr(self, next_method))
        starts_here = getattr(self, "start_from_trigger", False)  # then execute() was not called
        if starts_here and not takes_window:
            raise WindowNotReadError(_starts_without(self, next_method), _give_it(next_method), problem="deferred")
        opened = self.watermark.open(context, deferrable=True) if starts_here else self.watermark.reopen(context)
        try:
            with opened as window:
                offered = {"window": window} if takes_window else {}
                result = go_on(next_method, {**offered, **(next_kwargs or {})}, context)
                return finished(result, f"{next_method} of {type(self).__name__}")
        except WindowNotReadError as error:
            if takes_window or error.problem != "unread":
                raise
            raise WindowNotReadError(
                error.message, _give_it(next_method), problem="unread", key=error.key, asset=error.asset
            ) from error

    @abstractmethod
    def execute_window(self, context: Context, window: Window[Any]) -> Any:
        """Load the rows of the window, and replace what an earlier attempt may have loaded of them.

        Args:
            context: of the task.
            window: the window whose rows are to be loaded.
        """


def _takes_window(method: Any) -> bool:
    return "window" in inspect.signature(method).parameters


def _starts_without(operator: object, method: str) -> str:
    kind = type(operator).__name__
    return f"{kind} starts from its trigger, so execute_window is not called, and {method}() takes no `window` either."


def _give_it(method: str) -> str:
    return f"Give {method}() a parameter `window`: it gets the window to load, with track, observe and advance."
