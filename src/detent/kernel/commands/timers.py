"""Commands that a due time causes: a lease, a retry, a wait or a limit is over."""

from detent.kernel.commands.command_types import JobCommand, TaskCommand
from detent.kernel.frozen_value import value


@value
class ReclaimJob(JobCommand):
    """Take a job back whose lease with this fence has expired."""

    job_id: str
    fence: int


@value
class RequeueJob(JobCommand):
    """Queue a job whose retry is due."""

    job_id: str


@value
class WakeJob(JobCommand):
    """End a wait whose time is over."""

    job_id: str
    wait: str


@value
class ExpireJob(JobCommand):
    """Cancel a job that exceeded its queue or job time limit."""

    job_id: str
    limit: str


@value
class EndHold(JobCommand):
    """Free the resource of a suspended plan step that has kept it for the allowed time."""

    job_id: str
    step: str


@value
class CheckTask(TaskCommand):
    """Queue a blocked task again if its reason is gone."""

    task_id: str


@value
class FireTimer(TaskCommand):
    """Send a task the event of a timer of its lifecycle, if it is due."""

    task_id: str
    state: str
