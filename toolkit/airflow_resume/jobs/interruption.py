"""What may end an attempt before its job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class Interruption:
    """What keeps one attempt from waiting until its job has ended. A signal handler may set these at any moment.

    Args:
        can_cancel: the job system can cancel a job.
        stopped: the attempt is being ended from outside, and the policy is that its job ends too.
        replaced: another attempt has taken over.
        leaving: the worker shuts down, and the policy is to come back in the same try.
        cancelled: this attempt has asked for its job to be cancelled.
    """

    can_cancel: bool
    stopped: bool = False
    replaced: bool = False
    leaving: bool = False
    cancelled: bool = False

    def is_due(self) -> bool:
        """Whether the attempt has to do something else than wait: leave, or cancel its job."""
        return self.leaving or self.replaced or (self.stopped and self.can_cancel and not self.cancelled)
