"""Comments on lines of a diff: list them, add one, reply, resolve, reopen."""

from collections.abc import Sequence

from detent.errors import Invalid
from detent.ids import new_id
from detent.kernel.commands import review_commands as rc
from detent.operations import schemas
from detent.operations.comment_threads import Places, comment_schema, placed, threads_of
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.review_diffs import TaskDiff, read_diff
from detent.operations.review_draft_rows import draft_schemas, own_drafts
from detent.operations.reviewed_diff import diff_under_review, diffs_of_task
from detent.review.comment_lines import Lines, anchor_in, check_side
from detent.review.comment_places import Anchor

#: How many diffs are named in an error.
MAX_LISTED = 20


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/comments")
def task_comments(
    core: Core, caller: Caller, *, task_id: str, diff: str | None = None
) -> schemas.Comments:
    """List the comments on a task's diff with their places in it, and the caller's drafts."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        known = diffs_of_task(view, task)
        threads = threads_of(view, task_id)
        drafts = own_drafts(view, task_id, caller.name)
    shown = _shown_diff(known, diff)
    places = Places(core, known, shown)
    return {
        "diff": shown,
        "comments": [comment_schema(each) for each in placed(threads, places)],
        "drafts": draft_schemas(drafts, caller.name, threads, places),
    }


def _shown_diff(known: Sequence[TaskDiff], named: str | None) -> str | None:
    digests = [each.sha256 for each in known]
    if named is None:
        return digests[-1] if digests else None
    if named not in digests:
        raise Invalid(
            f"diff must be the SHA-256 of a diff of this task, not {named!r}.",
            field="diff",
            given=named,
            allowed=digests[-MAX_LISTED:],
        )
    return named


# ---- writing ---------------------------------------------------------------------------------


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/comments", status=201)
def add_comment(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    diff: str,
    file: str,
    side: str = "after",
    start: int,
    end: int,
    text: str,
) -> schemas.Commented:
    """Comment on lines of the diff under review, or on a whole file of it."""
    lines = Lines(diff, file, side, start, end)
    found, anchor = anchor_from(core, caller, task_id, lines)
    comment = new_comment(new_id(), found.run_id, anchor, text)
    core.engine.do(rc.AddComments(task_id, (comment,)), caller.actor)
    return _commented(core, caller, task_id, comment.id, "added")


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/comments/{comment_id}/replies", status=201)
def reply_to_comment(
    core: Core, caller: Caller, *, task_id: str, comment_id: str, text: str
) -> schemas.Commented:
    """Reply to a comment."""
    core.task(caller, task_id)
    reply = rc.NewReply(comment_id, new_id(), text)
    core.engine.do(rc.AddComments(task_id, replies=(reply,)), caller.actor)
    return _commented(core, caller, task_id, comment_id, "replied", reply.id)


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/comments/{comment_id}/resolve")
def resolve_comment(
    core: Core, caller: Caller, *, task_id: str, comment_id: str
) -> schemas.Commented:
    """Mark a comment as resolved; it is not sent to the agent any more."""
    core.task(caller, task_id)
    outcome = core.engine.do(rc.ResolveComment(task_id, comment_id), caller.actor)
    return _commented(core, caller, task_id, comment_id, outcome)


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/comments/{comment_id}/reopen")
def reopen_comment(
    core: Core, caller: Caller, *, task_id: str, comment_id: str
) -> schemas.Commented:
    """Mark a resolved comment as open again."""
    core.task(caller, task_id)
    outcome = core.engine.do(rc.ReopenComment(task_id, comment_id), caller.actor)
    return _commented(core, caller, task_id, comment_id, outcome)


def _commented(
    core: Core,
    caller: Caller,
    task_id: str,
    comment_id: str,
    outcome: str,
    reply_id: str | None = None,
) -> schemas.Commented:
    _, version = core.task(caller, task_id)
    return {
        "task_id": task_id,
        "comment_id": comment_id,
        "reply_id": reply_id,
        "outcome": outcome,
        "version": version,
    }


def new_comment(comment_id: str, run_id: str, anchor: Anchor, text: str) -> rc.NewComment:
    """The comment of a command, from its parts."""
    lines = (anchor.file, anchor.side, anchor.start, anchor.end, tuple(anchor.quoted))
    return rc.NewComment(comment_id, anchor.diff, run_id, *lines, text)


def anchor_from(core: Core, caller: Caller, task_id: str, given: Lines) -> tuple[TaskDiff, Anchor]:
    """The diff under review, and the anchor with the lines that it quotes, if they exist."""
    check_side(given.side)
    found = diff_under_review(core, caller, task_id, given.diff)
    return found, anchor_in(read_diff(core, found), given)
