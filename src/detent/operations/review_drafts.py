"""Drafts of comments, which only their author sees until they are published; changes requested."""

from collections.abc import Iterable

from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel.commands import review_commands as rc
from detent.kernel.decide.comments import check_text
from detent.operations import schemas
from detent.operations.comment_threads import threads_of
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.review_comments import anchor_from, new_comment
from detent.operations.review_draft_rows import (
    MAX_DRAFTS,
    TABLE,
    DraftRow,
    drafts_in,
    own_drafts,
    published_ids,
    row_name,
    to_row,
)
from detent.operations.tasks import judge
from detent.review.comment_lines import Lines
from detent.store.port import WriteTransaction

# ---- one draft -------------------------------------------------------------------------------


@operation(Scope.REVIEW, "PUT", "/api/tasks/{task_id}/drafts/{draft_id}")
def save_draft(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    draft_id: str,
    text: str,
    diff: str | None = None,
    file: str | None = None,
    side: str = "after",
    start: int = 0,
    end: int = 0,
    reply_to: str | None = None,
) -> schemas.SavedDraft:
    """Save a draft of a comment on lines of the diff under review, or of a reply."""
    core.task(caller, task_id)
    check_text(text)
    _check_unpublished(core, caller, task_id, draft_id)
    if reply_to is not None:
        _check_reply(core, task_id, reply_to, diff or file)
        draft = DraftRow(draft_id, 0, text, reply_to)
    else:
        if diff is None or file is None:
            missing = "diff" if diff is None else "file"
            raise Invalid(f"Give {missing}, or reply_to for a reply.", field=missing)
        given = Lines(diff, file, side, start, end)
        draft = _with_anchor(core, caller, task_id, DraftRow(draft_id, 0, text), given)
    return _saved(core, caller, task_id, draft)


def _check_unpublished(core: Core, caller: Caller, task_id: str, draft_id: str) -> None:
    with core.store.read() as view:
        published = published_ids(threads_of(view, task_id), caller.name)
    if draft_id in published:
        raise Refused(
            f"The draft {draft_id} was published and cannot be changed.",
            code="comment_exists",
            hint="Use another id for a new draft.",
        )


def _check_reply(core: Core, task_id: str, reply_to: str, lines: str | None) -> None:
    if lines is not None:
        raise Invalid(
            "Give the lines of a comment, or reply_to for a reply, not both.", field="reply_to"
        )
    with core.store.read() as view:
        known = [each.id for each in threads_of(view, task_id)]
    if reply_to not in known:
        raise NotFound(f"Task {task_id} has no comment {reply_to}.", code="unknown_comment")


def _with_anchor(
    core: Core, caller: Caller, task_id: str, draft: DraftRow, given: Lines
) -> DraftRow:
    """The draft on lines that exist. Lines that it has already may be of an older diff."""
    with core.store.read() as view:
        drafts = own_drafts(view, task_id, caller.name)
    for each in drafts:
        if each.id == draft.id and each.anchor is not None and each.anchor[:5] == given:
            return each._replace(text=draft.text)
    found, anchor = anchor_from(core, caller, task_id, given)
    return draft._replace(anchor=anchor, run_id=found.run_id)


def _saved(core: Core, caller: Caller, task_id: str, draft: DraftRow) -> schemas.SavedDraft:
    prefix = row_name(task_id, caller.name, "")

    def write(tx: WriteTransaction) -> None:
        known = drafts_in(tx.rows_for_update(TABLE, prefix), prefix)
        first = next((each.at for each in known if each.id == draft.id), None)
        if first is None and len(known) >= MAX_DRAFTS:
            raise Refused(
                f"You have {MAX_DRAFTS} drafts about task {task_id}, which is the limit.",
                code="too_many_comments",
                hint="Publish or delete some of them.",
            )
        at = tx.now() if first is None else first
        tx.put_rows(TABLE, {f"{prefix}{draft.id}": to_row(draft._replace(at=at))})

    core.engine.transaction(write)
    return {"task_id": task_id, "draft_id": draft.id, "outcome": "saved"}


@operation(Scope.REVIEW, "DELETE", "/api/tasks/{task_id}/drafts/{draft_id}")
def delete_draft(core: Core, caller: Caller, *, task_id: str, draft_id: str) -> schemas.SavedDraft:
    """Delete a draft of the caller; deleting it again changes nothing."""
    core.task(caller, task_id)
    _delete(core, caller, task_id, [draft_id])
    return {"task_id": task_id, "draft_id": draft_id, "outcome": "deleted"}


def _delete(core: Core, caller: Caller, task_id: str, draft_ids: Iterable[str]) -> None:
    names = dict.fromkeys(row_name(task_id, caller.name, each) for each in draft_ids)
    if names:
        core.engine.transaction(lambda tx: tx.put_rows(TABLE, names))


# ---- publishing ------------------------------------------------------------------------------


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/publish-drafts")
def publish_drafts(core: Core, caller: Caller, *, task_id: str) -> schemas.PublishedDrafts:
    """Publish all drafts of the caller about a task in one transaction."""
    core.task(caller, task_id)
    drafts = _drafts(core, caller, task_id)
    published: list[str] = []
    if drafts:
        command = rc.AddComments(task_id, _comments(drafts), _replies(drafts))
        published = core.engine.do(command, caller.actor)
        _delete(core, caller, task_id, [each.id for each in drafts])
    _, version = core.task(caller, task_id)
    return {"task_id": task_id, "published": published, "version": version}


def _drafts(core: Core, caller: Caller, task_id: str) -> list[DraftRow]:
    with core.store.read() as view:
        return own_drafts(view, task_id, caller.name)


def _comments(drafts: Iterable[DraftRow]) -> tuple[rc.NewComment, ...]:
    return tuple(
        new_comment(each.id, each.run_id or "", each.anchor, each.text)
        for each in drafts
        if each.anchor is not None
    )


def _replies(drafts: Iterable[DraftRow]) -> tuple[rc.NewReply, ...]:
    return tuple(
        rc.NewReply(each.reply_to, each.id, each.text)
        for each in drafts
        if each.reply_to is not None
    )


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/request-changes")
def request_changes(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    comment: str | None = None,
    diff: str | None = None,
    seen: int | None = None,
) -> schemas.Moved:
    """Publish the caller's drafts, reject the work and queue the task, in one transaction."""
    core.task(caller, task_id)
    drafts = _drafts(core, caller, task_id)

    def order(reviewed: rc.ReviewedDiff | None) -> c.TaskCommand:
        new = (_comments(drafts), _replies(drafts))
        return rc.RequestChanges(task_id, comment, *new, seen, reviewed)

    moved = judge(core, caller, task_id, diff, order)
    _delete(core, caller, task_id, [each.id for each in drafts])
    return moved
