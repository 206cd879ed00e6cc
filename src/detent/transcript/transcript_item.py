"""The items of a transcript, and the limits of their texts."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

#: The longest text of one field of an item, in characters; the raw output has the rest.
MAX_TEXT = 65_536
#: The longest one-line text of a tool call, and the longest name or id.
MAX_SUMMARY = 200

ItemKind = Literal[
    "message",
    "thinking",
    "tool_call",
    "tool_result",
    "edit",
    "error",
    "cost",
    "session",
    "note",
    "text",
]
KINDS: tuple[str, ...] = get_args(ItemKind)


class TranscriptItem(NamedTuple):
    """One item. The parser sets `number`, `turn`, `raw_line` and, if the line has no time, `at`."""

    kind: ItemKind
    role: str | None = None
    #: What is shown first; for a tool call, its most important argument on one line.
    text: str | None = None
    tool: str | None = None
    #: The agent's id of a tool call; its result has the same.
    tool_id: str | None = None
    input: str | None = None
    output: str | None = None
    is_error: bool = False
    path: str | None = None
    #: An edit as a unified diff. Its line numbers count from the first line of the edit.
    diff: str | None = None
    cost_usd: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    turn: int | None = None
    #: The number of the line of the output that the item comes from, from 1.
    raw_line: int = 0
    #: Microseconds since 1970.
    at: int | None = None
    #: The number of the item, from 1.
    number: int = 0

    def contains(self, folded: str) -> bool:
        """Whether a text, given with its case folded, is in one of the item's texts."""
        texts = (self.text, self.tool, self.input, self.output, self.path, self.diff)
        return any(folded in each.casefold() for each in texts if each is not None)

    def has_amounts(self) -> bool:
        """Whether it has a cost or a number of tokens."""
        return any(each is not None for each in (self.cost_usd, self.tokens_in, self.tokens_out))

    def size(self) -> int:
        """The number of characters of its texts."""
        texts = (self.text, self.input, self.output, self.diff)
        return sum(len(each) for each in texts if each is not None)


class Delta(NamedTuple):
    """A part of a message: the parser joins consecutive parts of the same kind and role."""

    item: TranscriptItem


#: What a format makes of a line.
Items = Sequence[TranscriptItem | Delta]


def clip(text: str) -> str:
    """The text, cut after the longest length that an item may have."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT:,} more characters: see the raw output]"


def one_line(text: str) -> str:
    """The first line of a text that is not empty, cut to the length of a summary."""
    head = text[: 4 * MAX_SUMMARY].strip().partition("\n")[0].strip()
    return head if len(head) <= MAX_SUMMARY else f"{head[: MAX_SUMMARY - 1]}…"
