"""Operators that load what is new: a thin shell over `airflow_resume.watermark`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.watermarks import Watermark, Window
from airflow_resume.watermarks.decorate import finished

if TYPE_CHECKING:
    from airflow.sdk import Context


class WatermarkMixin:
    """For an operator that loads a window: it writes `execute_window`, and has its `watermark`.

        class LoadOrders(WatermarkMixin, BaseOperator):
            watermark = watermark(ORDERS, initial="2026-01-01T00:00:00Z", delay=timedelta(minutes=2))

            def execute_window(self, context, window):
                ...

    The asset is put into `inlets` and `outlets`, and one instance runs at a time, as the window's bounds are those of
    one mark. What `execute_window` returns is the operator's result; the mark moves when it has returned.

    Raises:
        TypeError: when the operator is made, if it has no `watermark`; when it has run, if `execute_window` returned
            an iterator or a coroutine, as then its work is not done.
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
        hook: Any = getattr(super(), "_hook_apply_defaults", None)
        args, kwargs = ((), kwargs) if hook is None else hook(**kwargs)
        return args, mark.task_options(kwargs)

    def execute(self, context: Context) -> Any:
        """Load the window, and move the mark when `execute_window` has returned."""
        with self.watermark.open(context) as window:
            return finished(self.execute_window(context, window), f"execute_window of {type(self).__name__}")

    @abstractmethod
    def execute_window(self, context: Context, window: Window[Any]) -> Any:
        """Load the rows of the window, and replace what an earlier attempt may have loaded of them."""
