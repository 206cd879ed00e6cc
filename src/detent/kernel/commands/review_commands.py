"""Commands of a review: comments on lines of a diff, replies to them, and requests for changes."""

from typing import NamedTuple

from detent.kernel.commands.command_types import TaskCommand
from detent.kernel.frozen_value import value


class ReviewedDiff(NamedTuple):
    """The diff that a verdict is about, and the job whose evidence had it at that version.

    Evidence is recorded in the stream of its job. While the task has this job at this version, the
    diff under review is still the same.
    """

    sha256: str
    job_id: str
    job_version: int


class NewComment(NamedTuple):
    """A comment on lines of a diff; the fields of `CommentAdded`."""

    id: str
    diff: str
    run_id: str
    file: str
    side: str
    start: int
    end: int
    quoted: tuple[str, ...]
    text: str


class NewReply(NamedTuple):
    """A reply to a comment."""

    comment_id: str
    id: str
    text: str


class CommentCommand(TaskCommand):
    """A command for which the comments of its task are loaded."""

    __slots__ = ()


@value
class AddComments(CommentCommand):
    """Add comments and replies, all of them or none. Those whose ids are known are not repeated."""

    task_id: str
    comments: tuple[NewComment, ...] = ()
    replies: tuple[NewReply, ...] = ()
    #: The run that replies; None for a person.
    run_id: str | None = None
    #: The job of the checker whose findings the comments are; None for a person.
    check_id: str | None = None


@value
class ResolveComment(CommentCommand):
    """Mark a comment as resolved."""

    task_id: str
    comment_id: str


@value
class ReopenComment(CommentCommand):
    """Mark a resolved comment as open again."""

    task_id: str
    comment_id: str


@value
class RequestChanges(CommentCommand):
    """Add comments and replies, reject the work, and queue the task for another round."""

    task_id: str
    comment: str | None = None
    comments: tuple[NewComment, ...] = ()
    replies: tuple[NewReply, ...] = ()
    #: As in `AcceptTask`.
    seen: int | None = None
    diff: ReviewedDiff | None = None
