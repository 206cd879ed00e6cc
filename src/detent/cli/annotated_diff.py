"""A diff with comments and drafts at their lines, in the order in which a person reads it. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from detent.cli.diff_lines import Json

Kind = Literal["file", "hunk", "line", "comment", "draft", "elsewhere"]


class Lines(NamedTuple):
    """Lines of a file on one side of the diff; 0 and 0 are the whole file."""

    file: str
    side: str
    start: int
    end: int


class Part(NamedTuple):
    """A file, a hunk, a line, a comment or a draft of an annotated diff.

    After the part `elsewhere` come the comments and drafts on lines that the diff does not show.
    """

    kind: Kind
    value: Mapping[str, Any]


class AnnotatedDiff(NamedTuple):
    """The diff of a task that is under review, with the comments and the drafts of the reader."""

    task_id: str
    title: str
    sha256: str
    #: Files with their hunks.
    files: Sequence[Json]
    comments: Sequence[Json]
    drafts: Sequence[Json]

    def shows(self, lines: Lines) -> bool:
        """Whether a comment can be about these lines: all of them are in the diff."""
        file = next((each for each in self.files if each["path"] == lines.file), None)
        if file is None or lines.side not in ("before", "after"):
            return False
        if lines.start == lines.end == 0:
            return True
        numbers = {line[lines.side] for hunk in file["hunks"] for line in hunk["lines"]}
        if not 1 <= lines.start <= lines.end or lines.end - lines.start >= len(numbers):
            return False
        return all(number in numbers for number in range(lines.start, lines.end + 1))

    def parts(self) -> Iterator[Part]:
        """All parts in reading order."""
        below = self._by_last_line()
        for file in self.files:
            path = file["path"]
            yield Part("file", file)
            yield from self._notes(below.pop((path, "before", 0), ()))
            yield from self._notes(below.pop((path, "after", 0), ()))
            for hunk in file["hunks"]:
                yield Part("hunk", hunk)
                for line in hunk["lines"]:
                    yield Part("line", line)
                    yield from self._notes(below.pop((path, "before", line["before"]), ()))
                    yield from self._notes(below.pop((path, "after", line["after"]), ()))
        rest = [part for parts in below.values() for part in parts]
        if rest:
            yield Part("elsewhere", {})
            yield from self._notes(rest)

    def _by_last_line(self) -> dict[Any, list[Part]]:
        """Comments and drafts by their file, side and last line; None if they have no place."""
        found: dict[Any, list[Part]] = defaultdict(list)
        drafts = (Part("draft", each) for each in self.drafts if each["reply_to"] is None)
        for part in (*(Part("comment", each) for each in self.comments), *drafts):
            lines = lines_of(part.value)
            found[lines and (lines.file, lines.side, lines.end)].append(part)
        return found

    def _notes(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Comments, each with the reader's drafts of replies, and drafts."""
        for part in parts:
            yield part
            if part.kind == "comment":
                replies = (each for each in self.drafts if each["reply_to"] == part.value["id"])
                yield from (Part("draft", each) for each in replies)


def lines_of(note: Json) -> Lines | None:
    """Where a comment or a draft is in this diff; None if it is outdated or a reply."""
    place = note["place"]
    if place is None:
        return None
    return Lines(place["file"], place["side"], place["start"], place["end"])


def where_text(place: Json) -> str:
    """A place or an anchor as text, such as `app.py:3-7 (before)`."""
    if place["start"] == 0:
        return str(place["file"])
    side = " (before)" if place["side"] == "before" else ""
    last = "" if place["start"] == place["end"] else f"-{place['end']}"
    return f"{place['file']}:{place['start']}{last}{side}"
