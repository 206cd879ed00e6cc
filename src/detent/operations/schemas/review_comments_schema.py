"""Types of comments on a diff, of drafts, and of the answers about them."""

from typing import Literal

from typing_extensions import TypedDict

Side = Literal["before", "after"]


class CommentAnchor(TypedDict):
    """What a comment was written for: lines of a file on one side of a diff.

    `start` and `end` are 0 for a comment on the whole file.
    """

    diff: str
    file: str
    side: Side
    start: int
    end: int
    quoted: list[str]


class CommentPlace(TypedDict):
    """Where the lines of a comment are in another diff."""

    file: str
    side: Side
    start: int
    end: int


class CommentReply(TypedDict):
    """`run_id` is the run that replied; null for a reply of a person."""

    id: str
    author: str
    at: str
    text: str
    run_id: str | None


class Comment(TypedDict):
    """A comment with its replies. A comment without a place in this diff is outdated.

    `round` is the round in which it was written; the first one is 1.
    """

    id: str
    author: str
    at: str
    round: int
    state: Literal["open", "resolved"]
    text: str
    anchor: CommentAnchor
    place: CommentPlace | None
    replies: list[CommentReply]


class DraftAnchor(TypedDict):
    """As the anchor of a comment, without the quoted lines."""

    diff: str
    file: str
    side: Side
    start: int
    end: int


class Draft(TypedDict):
    """A comment that only its author sees; a draft of a reply has no anchor."""

    id: str
    at: str
    text: str
    reply_to: str | None
    anchor: DraftAnchor | None
    place: CommentPlace | None


class Comments(TypedDict):
    """The comments of a task, oldest first, and the drafts of the caller.

    `diff` is the diff in which the places are; null if the task has none.
    """

    diff: str | None
    comments: list[Comment]
    drafts: list[Draft]


class OwnComments(TypedDict):
    """The open comments on the work of a run's task, oldest first."""

    diff: str | None
    comments: list[Comment]


class Commented(TypedDict):
    """What was done with a comment; `reply_id` is the new reply, if one was added."""

    task_id: str
    comment_id: str
    reply_id: str | None
    outcome: str
    version: int


class SavedDraft(TypedDict):
    task_id: str
    draft_id: str
    outcome: str


class PublishedDrafts(TypedDict):
    """The ids of the comments and replies that were published."""

    task_id: str
    published: list[str]
    version: int


class OwnReply(TypedDict):
    run_id: str
    comment_id: str
    reply_id: str
