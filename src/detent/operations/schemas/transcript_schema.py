"""Types of the transcript of a run."""

from typing_extensions import TypedDict

from detent.transcript.transcript_item import ItemKind


class TranscriptItem(TypedDict):
    """One item of a transcript. Texts are cut after 65,536 characters.

    A result has the `tool_id` of its call. `diff` is a unified diff whose line numbers count from
    the first line of the edit. `raw_line` is the line of the output that the item comes from.
    """

    number: int
    at: str | None
    kind: ItemKind
    role: str | None
    text: str | None
    tool: str | None
    tool_id: str | None
    input: str | None
    output: str | None
    is_error: bool
    path: str | None
    diff: str | None
    cost_usd: float | None
    tokens_in: int | None
    tokens_out: int | None
    turn: int | None
    raw_line: int


class Transcript(TypedDict):
    """Items of a transcript in order. `next` is the `after` of the next page, and null if the run
    has ended and this is the last page. While the run works, ask again with `next`."""

    items: list[TranscriptItem]
    next: int | None
    ended: bool
