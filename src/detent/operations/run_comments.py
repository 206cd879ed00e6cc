"""What a run reads and writes about the comments on its work, with its own token."""

from detent.engine import CommandRequest
from detent.errors import DetentError, Refused
from detent.ids import new_id
from detent.kernel.commands import review_commands as rc
from detent.kernel.entities import Task
from detent.operations import schemas
from detent.operations.comment_threads import (
    Places,
    Thread,
    comment_schema,
    placed,
    threads_of,
)
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.reviewed_diff import diffs_of_task
from detent.operations.run_tokens import TokenRun, run_for_write, run_of_caller
from detent.redaction import redact

#: What is added to a reply of a run that considers the comment resolved.
CONSIDERED_RESOLVED = "(I consider this comment resolved.)"


@operation(Scope.RUN, "GET", "/api/run/comments")
def own_comments(core: Core, caller: Caller) -> schemas.OwnComments:
    """List the open comments on the work of this run's task, with their replies."""
    with core.store.read() as view:
        own = run_of_caller(view, caller)
    diff, threads = open_threads(core, _task(own))
    return {"diff": diff, "comments": [comment_schema(each) for each in threads]}


def open_threads(core: Core, task: Task) -> tuple[str | None, list[Thread]]:
    """The diff under review, and the open comments with their places in it."""
    with core.store.read() as view:
        diffs = diffs_of_task(view, task)
        threads = [each for each in threads_of(view, task.id) if each.open]
    diff = diffs[-1].sha256 if diffs else None
    return diff, placed(threads, Places(core, diffs, diff))


@operation(Scope.RUN, "POST", "/api/run/comments/{comment_id}/replies", status=201)
def own_reply(
    core: Core, caller: Caller, *, comment_id: str, text: str, resolved: bool = False
) -> schemas.OwnReply:
    """Reply to a comment on this run's work. Only people resolve comments."""
    own = run_for_write(core, caller)
    reported = redact(text)
    if resolved:
        reported = f"{reported}\n\n{CONSIDERED_RESOLVED}"
    reply = rc.NewReply(comment_id, new_id(), reported)
    command = rc.AddComments(_task(own).id, replies=(reply,), run_id=own.run_id)
    (result,) = core.engine.execute([CommandRequest(command, caller.actor, grant=own.grant)])
    if isinstance(result, DetentError):
        raise result
    return {"run_id": own.run_id, "comment_id": comment_id, "reply_id": reply.id}


def _task(own: TokenRun) -> Task:
    if own.task is None:
        raise Refused(f"Job {own.job.id} has no task, so it has no comments.")
    return own.task
