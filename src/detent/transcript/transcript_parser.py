"""Parses the output of an agent into the items of its transcript, in chunks of any size.

The format is that of the agent's preset, else the first one that recognises a line. No output can
make this fail or use unbounded memory: a line that no format recognises is shown as it is, and of a
line that is too long the beginning is shown.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Protocol

from detent.transcript import json_fields as fields
from detent.transcript.acp import Acp
from detent.transcript.claude import Claude
from detent.transcript.codex import Codex
from detent.transcript.cursor import Cursor
from detent.transcript.gemini import Gemini
from detent.transcript.opencode import Opencode
from detent.transcript.transcript_item import MAX_TEXT, Delta, Items, TranscriptItem, clip

#: The longest line that is parsed, and what is shown of a longer one.
MAX_LINE = 2 * 1024 * 1024
MAX_SHOWN = 4_096
#: The maximum number of tool calls whose results are awaited.
MAX_CALLS = 200

#: The time of the output at an offset, in microseconds.
TimeAt = Callable[[int], int | None]


class Format(Protocol):
    """The line format of one agent, with what it remembers of earlier lines."""

    @property
    def turn(self) -> int:
        """The number of the current turn; 0 before the first."""

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line; None if the line has another format."""


#: By the name of the agent's preset. A line is tried in this order if the preset is unknown.
FORMATS: Mapping[str, Callable[[], Format]] = {
    "claude": Claude,
    "codex": Codex,
    "gemini": Gemini,
    "opencode": Opencode,
    "cursor": Cursor,
    "acp": Acp,
}


def no_time(_: int) -> int | None:
    """The time of output whose times are not known."""
    return None


class TranscriptParser:
    """Parses one output. `position` is a copy that continues at `offset`."""

    def __init__(self, preset: str | None = None, time_at: TimeAt = no_time) -> None:
        self.time_at = time_at
        #: Where the first line begins that is not parsed yet.
        self.offset = 0
        #: The number of the last item, and of the last line.
        self.number = self.line_number = 0
        known = None if preset is None else FORMATS.get(preset)
        self._format: Format | None = None if known is None else known()
        #: The turns that were read in another format.
        self._earlier_turns = 0
        self._calls: dict[str, tuple[str | None, str | None]] = {}
        self._delta: TranscriptItem | None = None
        self._delta_parts: list[str] = []
        self._delta_size = 0
        self._parts: list[bytes] = []
        self._held = 0

    def position(self) -> "TranscriptParser":
        """A copy without the incomplete last line: feed it the output from `offset`."""
        copy = TranscriptParser(time_at=no_time)
        copy.offset, copy.number, copy.line_number = self.offset, self.number, self.line_number
        copy._format, copy._earlier_turns = deepcopy(self._format), self._earlier_turns
        copy._calls = dict(self._calls)
        copy._delta, copy._delta_parts = self._delta, list(self._delta_parts)
        copy._delta_size = self._delta_size
        return copy

    # -- lines -----------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> Iterator[TranscriptItem]:
        """The items of the lines that the chunk completes."""
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._hold(piece)
            yield from self._line(newline=1)
        self._hold(rest)

    def end(self) -> Iterator[TranscriptItem]:
        """The items of the last line, if no newline ended it, and of an unfinished message."""
        if self._held:
            yield from self._line(newline=0)
        yield from self._joined()

    def _hold(self, piece: bytes) -> None:
        """Keep a part of a line, as much of it as is needed."""
        if self._held + len(piece) <= MAX_LINE:
            self._parts.append(piece)
        elif self._held <= MAX_LINE:
            self._parts = [b"".join([*self._parts, piece])[:MAX_SHOWN]]
        self._held += len(piece)

    def _line(self, newline: int) -> Iterator[TranscriptItem]:
        line, size, start = b"".join(self._parts), self._held, self.offset
        self._parts, self._held = [], 0
        self.line_number += 1
        self.offset += size + newline
        if size > MAX_LINE:
            shown = line.decode("utf-8", "replace")
            text = f"{shown}\n[a line of {size:,} bytes, too long to be read: see the raw output]"
            yield from self._numbered(TranscriptItem("text", text=text), None, start)
        else:
            yield from self._read(line, start)

    def _read(self, line: bytes, start: int) -> Iterator[TranscriptItem]:
        found = fields.decoded(line)
        items = None if found is None else self._formatted(found)
        if found is None or items is None:
            text = line.decode("utf-8", "replace").rstrip("\r")
            items = [TranscriptItem("text", text=clip(text))] if text.strip() else []
        at = None if found is None else fields.time_of(found)
        for each in items:
            yield from self._numbered(each, at, start)

    def _formatted(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line in the known format, else in the first one that recognises it."""
        items = None if self._format is None else self._format.read(line)
        if items is not None:
            return items
        for make in FORMATS.values():
            other = make()
            items = other.read(line)
            if items is not None:
                self._earlier_turns += self._turns()
                self._format = other
                return items
        return None

    def _turns(self) -> int:
        return 0 if self._format is None else self._format.turn

    # -- items -----------------------------------------------------------------------------

    def _numbered(
        self, item: TranscriptItem | Delta, at: int | None, start: int
    ) -> Iterator[TranscriptItem]:
        """The item with its place; a part of a message waits for the rest."""
        made = item.item if isinstance(item, Delta) else item
        if isinstance(item, Delta) and self._continues(made):
            self._delta_parts.append(made.text or "")
            self._delta_size += len(made.text or "")
            return
        yield from self._joined()
        made = made._replace(
            at=self.time_at(start) if at is None else at,
            turn=self._earlier_turns + self._turns() or None,
            raw_line=self.line_number,
        )
        if isinstance(item, Delta):
            self._delta, self._delta_parts = made, [made.text or ""]
            self._delta_size = len(made.text or "")
        else:
            yield self._counted(made)

    def _continues(self, part: TranscriptItem) -> bool:
        """Whether a part belongs to the message whose parts are waiting."""
        begun = self._delta
        same = begun is not None and (part.kind, part.role) == (begun.kind, begun.role)
        return same and self._delta_size <= MAX_TEXT

    def _joined(self) -> Iterator[TranscriptItem]:
        """The message whose parts have been waiting."""
        if self._delta is not None:
            whole = self._delta._replace(text=clip("".join(self._delta_parts)))
            self._delta, self._delta_parts = None, []
            yield self._counted(whole)

    def _counted(self, item: TranscriptItem) -> TranscriptItem:
        """The item with its number; a result gets the tool and the path of its call."""
        self.number += 1
        if item.tool_id is not None and item.kind == "tool_result":
            tool, path = self._calls.pop(item.tool_id, (None, None))
            item = item._replace(tool=item.tool or tool, path=path)
        elif item.tool_id is not None:
            self._calls[item.tool_id] = (item.tool, item.path)
            if len(self._calls) > MAX_CALLS:
                del self._calls[next(iter(self._calls))]
        return item._replace(number=self.number)
