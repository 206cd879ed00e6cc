"""Decides comments on a diff: add, reply, resolve, reopen; and the request for changes."""

from collections.abc import Iterable

from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.checks import CHECKS
from detent.kernel.commands import review_commands as rc
from detent.kernel.decide import control, declared_events
from detent.kernel.decide.guards import not_its_own, not_over_a_question, same_diff, seen
from detent.kernel.draft import Draft
from detent.kernel.entities import Comment, Task
from detent.kernel.world import COMMENTS

LONGEST_TEXT = 20_000
MAX_COMMENTS = 1_000
#: The maximum number of replies to one comment.
MAX_REPLIES = 200
SIDES = ("before", "after")

# ---- comments and replies --------------------------------------------------------------------


def add_comments(draft: Draft, command: rc.AddComments) -> list[str]:
    """Add comments and replies; return the ids of those that were not known before."""
    task = draft.task(command.task_id)
    if command.comments:
        not_its_own(draft, task, "comment on it")
    by = None if command.check_id is None else _checker(draft, task, command)
    return _add(draft, task, command.comments, command.replies, command.run_id, by)


def _checker(draft: Draft, task: Task, command: rc.AddComments) -> str:
    """Return the name of the checker; refuse a job that does not check the diff of this task."""
    job = draft.job(command.check_id or "")
    checked = job.options.get(CHECKS, {})
    diffs = {each.diff for each in command.comments}
    if checked.get("task_id") != task.id or not diffs <= {checked.get("diff")}:
        raise Refused(f"Job {job.id} does not check this diff of task {task.id}.")
    return f"checker:{job.intent}"


def _add(
    draft: Draft,
    task: Task,
    comments: Iterable[rc.NewComment],
    replies: Iterable[rc.NewReply],
    run_id: str | None = None,
    by: str | None = None,
) -> list[str]:
    added = [each.id for each in comments if _add_comment(draft, task, each, by)]
    return added + [each.id for each in replies if _add_reply(draft, task, each, run_id)]


def _add_comment(draft: Draft, task: Task, new: rc.NewComment, by: str | None) -> bool:
    check_text(new.text)
    _check_lines(new)
    known = draft.parts_of(COMMENTS, task.id)
    if new.id in known:
        return _repeated(new.id, known[new.id].author, by or draft.actor.name)
    if len(known) >= MAX_COMMENTS:
        raise Refused(
            f"Task {task.id} has {MAX_COMMENTS} comments, which is the limit.",
            code="too_many_comments",
        )
    draft.emit(
        task.id,
        e.CommentAdded(
            new.id,
            new.diff,
            new.run_id,
            new.file,
            new.side,
            new.start,
            new.end,
            tuple(new.quoted),
            new.text,
            task.rounds,
            by,
        ),
    )
    return True


def _repeated(known_id: str, author: str, by: str) -> bool:
    """Return False: the author repeats it. Refuse the id for any other author."""
    if author != by:
        raise Refused(
            f"The id {known_id} belongs to a comment or reply of {author}.", code="comment_exists"
        )
    return False


def _add_reply(draft: Draft, task: Task, new: rc.NewReply, run_id: str | None) -> bool:
    check_text(new.text)
    comment = _comment(draft, task, new.comment_id)
    if new.id in comment.replies:
        return _repeated(new.id, comment.replies[new.id], draft.actor.name)
    if len(comment.replies) >= MAX_REPLIES:
        raise Refused(
            f"Comment {comment.id} has {MAX_REPLIES} replies, which is the limit.",
            code="too_many_comments",
        )
    draft.emit(task.id, e.CommentReplied(comment.id, new.id, new.text, run_id))
    return True


def _comment(draft: Draft, task: Task, comment_id: str) -> Comment:
    found: Comment | None = draft.part(COMMENTS, task.id, comment_id)
    if found is None:
        raise NotFound(f"Task {task.id} has no comment {comment_id}.", code="unknown_comment")
    return found


def check_text(text: str) -> None:
    """Refuse a blank or too long text of a comment or reply."""
    if not text.strip() or len(text) > LONGEST_TEXT:
        form = f"1 to {LONGEST_TEXT} characters"
        raise Invalid(
            f"text must have {form}, and it must not be blank; it has {len(text)}.",
            field="text",
            allowed=(form,),
        )


def _check_lines(new: rc.NewComment) -> None:
    if new.side not in SIDES:
        raise Invalid(
            f"side must be before or after, not {new.side!r}.",
            field="side",
            given=new.side,
            allowed=SIDES,
        )
    if not (new.start == new.end == 0 or 1 <= new.start <= new.end):
        form = "start <= end, both from 1; or both 0 for the whole file"
        raise Invalid(
            f"The lines must be given as {form}; not {new.start} to {new.end}.",
            field="start",
            given=new.start,
            allowed=(form,),
        )


# ---- resolving -------------------------------------------------------------------------------


def resolve_comment(draft: Draft, command: rc.ResolveComment) -> str:
    """Return `resolved`, or `repeated` if it was resolved before, which changes nothing."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "resolve its comments")
    if not _comment(draft, task, command.comment_id).open:
        return "repeated"
    draft.emit(task.id, e.CommentResolved(command.comment_id))
    return "resolved"


def reopen_comment(draft: Draft, command: rc.ReopenComment) -> str:
    """Return `reopened`, or `repeated` if it was open, which changes nothing."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "reopen its comments")
    if _comment(draft, task, command.comment_id).open:
        return "repeated"
    draft.emit(task.id, e.CommentReopened(command.comment_id))
    return "reopened"


# ---- another round ---------------------------------------------------------------------------


def request_changes(draft: Draft, command: rc.RequestChanges) -> str:
    """Add the comments and start another round; return the state of the task after it."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "request changes")
    not_over_a_question(task)
    seen(draft, task, command.seen)
    same_diff(draft, task, command.diff)
    event = _event_of_another_round(draft, task)
    _add(draft, task, command.comments, command.replies)
    if not (command.comment or "").strip() and not _has_open_comment(draft, task):
        raise Refused(
            f"Task {task.id} has no open comment, and the request has no comment.",
            code="nothing_requested",
        )
    sent = c.SendEvent(task.id, event, command.comment, diff=command.diff)
    declared_events.send_event(draft, sent)
    if draft.may(draft.task(task.id), e.TaskQueued):
        control.queue_task(draft, c.QueueTask(task.id))
    return draft.task(task.id).state


def _has_open_comment(draft: Draft, task: Task) -> bool:
    return any(each.open for each in draft.parts_of(COMMENTS, task.id).values())


def _event_of_another_round(draft: Draft, task: Task) -> str:
    """Return the event with which a person sends the task back: one that counts a round."""
    lifecycle = draft.lifecycle(task)
    rows = [row for row in lifecycle.rows if row.source == task.state]
    counted = [row for row in rows if row.event in lifecycle.rounds.events]
    for row in counted:
        if row.people:
            return row.event
    raise Refused(
        f"Task {task.id} is {task.state}: in this state its lifecycle {lifecycle.id} has no event "
        "with which a person requests changes.",
        code="illegal_transition",
        legal=[row.event for row in rows],
        details={"state": task.state},
    )
