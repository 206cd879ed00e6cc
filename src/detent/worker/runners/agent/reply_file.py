"""Reads the replies file of an agent: one JSON object in each line, `{"comment": …, "text": …}`."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from detent.errors import DetentError
from detent.kernel.decide.comments import LONGEST_TEXT
from detent.redaction import redact
from detent.worker.run_files import RunFiles

REPLIES = "replies.jsonl"
MAX_BYTES = 4_194_304
MAX_REPLIES = 1_000


class WrittenReply(NamedTuple):
    """A reply to the comment with this id."""

    comment_id: str
    text: str


class WrittenReplies(NamedTuple):
    """The replies of a file, and what is wrong with the rest of it."""

    replies: tuple[WrittenReply, ...] = ()
    problems: tuple[str, ...] = ()


def replies_in(files: RunFiles) -> WrittenReplies:
    """Read the agent's replies file; no file means no replies."""
    try:
        data = files.left(REPLIES, MAX_BYTES)
    except (DetentError, OSError) as error:
        return WrittenReplies(problems=(f"{REPLIES} was not read: {error}",))
    replies: list[WrittenReply] = []
    problems: list[str] = []
    for number, line in enumerate((data or b"").splitlines(), 1):
        if not line.strip():
            continue
        reply = _reply(line)
        if reply is None:
            problems.append(
                f'line {number} of {REPLIES} is not {{"comment": id, "text": text}} with 1 to '
                f"{LONGEST_TEXT} characters of text"
            )
        elif len(replies) < MAX_REPLIES:
            replies.append(reply)
    return WrittenReplies(tuple(replies), tuple(problems))


def _reply(line: bytes) -> WrittenReply | None:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not isinstance(found, Mapping):
        return None
    comment_id, text = found.get("comment"), found.get("text")
    if not isinstance(comment_id, str) or not isinstance(text, str):
        return None
    reported = redact(text).strip()
    return WrittenReply(comment_id, reported) if 0 < len(reported) <= LONGEST_TEXT else None
