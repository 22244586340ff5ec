"""Operators that load what is new: a thin shell over `airflow_resume.watermark`."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.errors import NothingReadError, WindowDeferredError
from airflow_resume.watermarks import Watermark, Window
from airflow_resume.watermarks.decorate import finished

if TYPE_CHECKING:
    from airflow.sdk import Context

FAILED_TRIGGER = "__fail__"
"""What Airflow calls the method that goes on where the trigger has failed, or has taken too long."""


class WatermarkMixin:
    """For an operator that loads a window: it writes `execute_window`, and has its `watermark`.

        class LoadOrders(WatermarkMixin, BaseOperator):
            watermark = watermark(ORDERS, initial="2026-01-01T00:00:00Z", delay=timedelta(minutes=2))

            def execute_window(self, context, window):
                ...

    The asset is put into `inlets` and `outlets`, and one instance runs at a time, as the window's bounds are those of
    one mark. What `execute_window` returns is the operator's result; the mark moves when it has returned.

    It may defer: the mark moves when the method that goes on has returned. If that takes a parameter `window`, it gets
    the window, and must where the mark follows what was seen or said (`advance="observed"`, `"explicit"`), or where the
    operator starts from its trigger. Its bounds are the same; what was told the window before the deferral would be
    lost, and is refused.

    Raises:
        TypeError: when the operator is made, if it has no `watermark`, or starts from its trigger and goes on in a
            method without a `window`; when it has run, if `execute_window` returned an iterator or a coroutine, as
            then its work is not done.
    """

    watermark: ClassVar[Watermark[Any]]
    """May also be set by an operator's own `__init__`, before it calls that of its base."""

    def _hook_apply_defaults(self, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Airflow asks for this before every `__init__` of an operator's classes, as none may be put around them."""
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
        """Load the window, and move the mark when `execute_window` has returned."""
        with self.watermark.open(context, deferrable=True) as window:
            return finished(self.execute_window(context, window), f"execute_window of {type(self).__name__}")

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Airflow's own, after a deferral, in the window that was open then; the mark moves when the method returns.

        Raises:
            NothingReadError: the method has not read what the mark would move over.
            WindowDeferredError: it defers again, after it has told the window what would be lost.
        """
        go_on: Any = super().resume_execution  # type: ignore[misc]
        if next_method == FAILED_TRIGGER:
            return go_on(next_method, next_kwargs, context)
        takes_window = _takes_window(getattr(self, next_method))
        starts_here = getattr(self, "start_from_trigger", False)  # then nobody has called execute()
        if starts_here and not takes_window:
            raise WindowDeferredError(_starts_without(self, next_method), _give_it(next_method))
        opened = self.watermark.open(context, deferrable=True) if starts_here else self.watermark.reopen(context)
        try:
            with opened as window:
                offered = {"window": window} if takes_window else {}
                result = go_on(next_method, {**offered, **(next_kwargs or {})}, context)
                return finished(result, f"{next_method} of {type(self).__name__}")
        except NothingReadError as error:
            if takes_window:
                raise
            raise NothingReadError(error.message, _give_it(next_method)) from error

    @abstractmethod
    def execute_window(self, context: Context, window: Window[Any]) -> Any:
        """Load the rows of the window, and replace what an earlier attempt may have loaded of them."""


def _takes_window(method: Any) -> bool:
    return "window" in inspect.signature(method).parameters


def _starts_without(operator: object, method: str) -> str:
    kind = type(operator).__name__
    return f"{kind} starts from its trigger, so nobody calls execute_window, and {method}() takes no `window` either."


def _give_it(method: str) -> str:
    return f"Give {method}() a parameter `window`: it is the window to load, and knows track, observe and advance."
