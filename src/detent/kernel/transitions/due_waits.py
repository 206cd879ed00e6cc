"""Waits whose time has come: end them, or check again later if what they wait for is missing."""

from detent.kernel import events as e
from detent.kernel.budget import Exhausted
from detent.kernel.budget_reservation import allowance
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Wait
from detent.kernel.resource_wait import overdue
from detent.kernel.transitions.idle_plan import (
    RESOURCE_POLL_US,
    is_available,
    next_check_at,
    short_of,
)
from detent.kernel.transitions.waits import end_wait
from detent.kernel.wait_kinds import LONG_US


def wake(draft: Draft, job: Job, wait: Wait) -> None:
    """End a due wait: a question takes its default, a wait without one expires."""
    if _is_still_missing(draft, job, wait):
        if overdue(draft, job, wait.detail.get("steps", ()), draft.now) is None:
            _postpone(draft, job, wait)
        else:
            end_wait(draft, wait, "expired")
    elif wait.kind in ("resource", "funds"):
        end_wait(draft, wait, "available")
    elif wait.kind in ("timer", "retry"):
        end_wait(draft, wait, "due")
    elif "default" in wait.detail:
        end_wait(draft, wait, "default", wait.detail["default"])
    else:
        end_wait(draft, wait, "expired")


def has_resource(draft: Draft, job: Job, wait: Wait) -> bool:
    """Whether a step that waits for a resource could have one now."""
    names = wait.detail["steps"] if wait.kind == "resource" else ()
    return any(is_available(draft, job, name) for name in names)


def _is_still_missing(draft: Draft, job: Job, wait: Wait) -> bool:
    """Whether the resource or the money that it waits for is still missing."""
    if wait.kind == "resource":
        return not has_resource(draft, job, wait)
    task = draft.task_of(job) if wait.kind == "funds" else None
    return task is not None and isinstance(allowance(draft, task), Exhausted)


def _postpone(draft: Draft, job: Job, wait: Wait) -> None:
    """Check again after as long as it has waited so far, at least five seconds, at most a minute.

    A wait for a spent budget is not checked again: raising the budget ends it. A job that has
    waited a minute, or waits for a spent budget, is parked.
    """
    waited_us = draft.now - wait.begun_at
    lack = short_of(draft, job) if wait.kind == "funds" else None
    spent = lack is not None and lack.spent
    pause_us = min(max(waited_us, RESOURCE_POLL_US), LONG_US)
    later = next_check_at(draft, job, wait.detail.get("steps", ()), pause_us)
    draft.emit(job.id, e.WaitPostponed(None if spent else later), wait.name)
    if job.state == "waiting" and (spent or waited_us >= LONG_US):
        draft.emit(job.id, e.JobParked(wait.kind))
