"""The message to an agent about the open comments on its work. Pure: values in, text out."""

from collections.abc import Sequence

from detent.operations.comment_threads import Thread
from detent.quantity import quantity

#: How many quoted lines of a comment are shown, and how much of each.
MAX_QUOTED = 40
LONGEST_QUOTED = 500
HOW_TO_REPLY = """\
Act on every comment, then reply to every comment: what you changed, or why you did not. To reply, \
append one line of JSON for each comment to the file named by the environment variable \
DETENT_REPLIES_FILE: {"comment": "ID", "text": "your reply"}. With the tools of detent you can use \
own_reply instead, and own_comments lists the comments. Only a person resolves a comment."""


def review_message(threads: Sequence[Thread]) -> str:
    """All open comments in one message; empty if there are none."""
    if not threads:
        return ""
    count = "is 1 open comment" if len(threads) == 1 else f"are {len(threads)} open comments"
    shown = [_comment(number, each) for number, each in enumerate(threads, 1)]
    return "\n\n".join([f"There {count} on your changes.", *shown, HOW_TO_REPLY])


def _comment(number: int, thread: Thread) -> str:
    lines = [f"Comment {number} (id {thread.id}): {_where(thread)}"]
    lines += [f"> {each}" for each in _quoted(thread.anchor.quoted)]
    lines.append(f"{thread.author}: {thread.text}")
    lines += [f"Reply of {reply.author}: {reply.text}" for reply in thread.replies]
    return "\n".join(lines)


def _where(thread: Thread) -> str:
    """The file and the lines, in the current diff if they are still there."""
    at = thread.place or thread.anchor
    if at.start == 0:
        return f"the whole file {at.file}" + _age(thread)
    lines = f"line {at.start}" if at.start == at.end else f"lines {at.start} to {at.end}"
    side = "before your changes" if at.side == "before" else "after your changes"
    return f"{at.file}, {lines}, {side}" + _age(thread)


def _age(thread: Thread) -> str:
    return "" if thread.place is not None else " (outdated: these lines have changed since)"


def _quoted(lines: Sequence[str]) -> list[str]:
    shown = [each[:LONGEST_QUOTED] for each in lines[:MAX_QUOTED]]
    more = len(lines) - MAX_QUOTED
    return [*shown, f"[{quantity(more, 'more line')}]"] if more > 0 else shown
