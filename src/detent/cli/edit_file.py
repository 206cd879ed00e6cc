"""A diff as a text that a person edits: lines that are added below a line are comments on it.

Every line of the diff has its numbers on both sides and a bar, and everything else that detent
writes begins with a bar; all other lines are text of the person. A line of text that looks like one
of detent's own is written with a backslash before it. Pure.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from detent.cli.annotated_diff import AnnotatedDiff, Lines, Part, lines_of, where_text
from detent.cli.diff_lines import Json, file_name, hunk_heading, signed_text
from detent.cli.output import clean

BAR = "│"
#: A line that detent has written: of the diff, with its numbers, or a remark.
WRITTEN = re.compile(rf" *(?:(\d+|\.) +(\d+|\.) +)?{BAR}")
#: The remarks that begin a part.
DIFF = re.compile(rf"{BAR} diff ([0-9a-f]{{64}})")
FILE = re.compile(rf"{BAR} file (\d+): ")
NOTE = re.compile(rf"{BAR} (comment|draft) ([A-Za-z0-9][A-Za-z0-9._:-]*)")
HUNK = f"{BAR} @@ "
ELSEWHERE = f"{BAR} Not in this diff:"
#: The first line of a text: the lines that it is about, or what happens to the comment above it.
DIRECTIVE = re.compile(r"@(?:(?:(before|after) +)?(\d+)(?:-(\d+))?|(resolve|reopen))\s*")

INSTRUCTIONS = f"""\
Write a comment below the line that it is about, a reply below a comment, and a comment on the
whole work below these instructions. Then save the file and close the editor: your comments
are stored as drafts, which only you see. An empty file changes nothing.

Lines that begin with {BAR}, or with numbers and {BAR}, are not yours: leave them as they are.
The first line of a text can be:
  @3-7        the comment is about the lines 3 to 7, not only the line above it
  @before 3   the comment is about the line 3 before the change
  @resolve    the comment above is resolved; @reopen: it is open again
A draft without text is deleted."""


# ---- writing ---------------------------------------------------------------------------------


def write(diff: AnnotatedDiff, general: str = "") -> str:
    """The text to edit. `general` is a comment on the whole work that was written before."""
    lines = [*_heading(diff), "", *_own_text(normal(general)), ""]
    number = 0
    at: Lines | None = None
    for part in diff.parts():
        if part.kind == "file":
            number += 1
            at = Lines(part.value["path"], "after", 0, 0)
            lines += ["", f"{BAR} file {number}: {_one_line(file_name(part.value))}"]
        elif part.kind == "line":
            at = _line_of(at, part.value["before"], part.value["after"])
        elif part.kind == "elsewhere":
            at = None
        lines += _written(part, at)
    return "\n".join([*lines, ""])


def _heading(diff: AnnotatedDiff) -> Iterator[str]:
    yield f"{BAR} Review of task {_one_line(diff.task_id)}: {_one_line(diff.title)}"
    yield f"{BAR} diff {diff.sha256}"
    for line in ("", *INSTRUCTIONS.split("\n")):
        yield f"{BAR} {line}".rstrip()


def _written(part: Part, at: Lines | None) -> Iterator[str]:
    value = part.value
    if part.kind == "hunk":
        yield f"{BAR} {_one_line(hunk_heading(value).text)}"
    elif part.kind == "line":
        yield _diff_line(value)
    elif part.kind == "comment":
        yield from _comment(value)
    elif part.kind == "draft":
        yield f"{BAR} draft {value['id']}{_of_reply(value)}"
        yield from _own_text(normal(value["text"]), _directive(value, at))
    elif part.kind == "elsewhere":
        yield from ("", ELSEWHERE)


def _diff_line(line: Json) -> str:
    before, after = (line[side] or "." for side in ("before", "after"))
    return f"{before:>5} {after:>5} {BAR}{_one_line(signed_text(line))}"


def _comment(comment: Json) -> Iterator[str]:
    place = where_text(comment["place"] or comment["anchor"])
    state = comment["state"] if comment["place"] else f"{comment['state']}, outdated"
    yield f"{BAR} comment {comment['id']} ({state}) on {_one_line(place)}"
    for author, text in ((each["author"], each["text"]) for each in (comment, *comment["replies"])):
        first, *rest = f"{author}: {text}".split("\n")
        for line in (first, *rest):
            yield f"{BAR}   {_one_line(line)}".rstrip()


def _of_reply(draft: Json) -> str:
    return "" if draft["reply_to"] is None else f", a reply to {draft['reply_to']}"


def _directive(draft: Json, at: Lines | None) -> str | None:
    """The line that says what a draft is about, if its place does not say it."""
    lines = lines_of(draft)
    if lines is None or at in (None, lines):
        return None
    last = "" if lines.start == lines.end else f"-{lines.end}"
    return f"@{lines.side} {lines.start}{last}"


def _own_text(text: str, directive: str | None = None) -> Iterator[str]:
    """A text of the person; what would be read as something else gets a backslash."""
    if directive is not None:
        yield directive
    for number, line in enumerate(text.split("\n")):
        yield f"\\{line}" if _is_special(line, first=number == 0) else line


def _is_special(line: str, *, first: bool) -> bool:
    plain = line.lstrip("\\")
    return bool(WRITTEN.match(plain) or (first and DIRECTIVE.fullmatch(plain)))


def _one_line(text: str) -> str:
    return clean(text).replace("\n", " ")


def _line_of(at: Lines | None, before: int | None, after: int | None) -> Lines:
    """The line of a file with these numbers: that after the change, if there is one."""
    file = "" if at is None else at.file
    side, number = ("before", before or 0) if after is None else ("after", after)
    return Lines(file, side, number, number)


def normal(text: str) -> str:
    """A text without carriage returns at the ends of lines, and without blank lines around it."""
    lines = _split(text)
    kept = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[kept[0] : kept[-1] + 1]) if kept else ""


def _split(text: str) -> list[str]:
    return [line.rstrip("\r") for line in text.split("\n")]


# ---- reading ---------------------------------------------------------------------------------


class Note(NamedTuple):
    """A comment or a reply that a person has written, or a draft that may have changed.

    `lines` is None for a reply, and for a draft that stays on lines that the diff does not show.
    """

    text: str
    lines: Lines | None = None
    reply_to: str | None = None
    draft_id: str | None = None


class Edits(NamedTuple):
    """What a person has written into the text."""

    general: str = ""
    notes: tuple[Note, ...] = ()
    deleted_drafts: tuple[str, ...] = ()
    resolved: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()


class Problem(NamedTuple):
    """What is wrong with a line of the text; lines are numbered from 1."""

    line: int
    message: str


class UnreadableEdits(Exception):
    """The text has lines that cannot be understood; nothing of it was used."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"line {each.line}: {each.message}" for each in problems))
        self.problems = problems


def parse(diff: AnnotatedDiff, text: str) -> Edits:
    """What a person has written into the text of this diff. An empty text has no edits."""
    return _Parser(diff).parse(_split(text))


def diff_in(text: str) -> str | None:
    """The SHA-256 of the diff that a text is about."""
    found = re.search(rf"^{DIFF.pattern}", text, re.MULTILINE)
    return found[1] if found else None


#: In place of a comment or a draft: text here is about nothing.
NOTHING = ("nothing", "")


class _Parser:
    """Reads the lines in order and keeps the place that the next text is about."""

    def __init__(self, diff: AnnotatedDiff) -> None:
        self.diff = diff
        self.drafts = {each["id"]: each for each in diff.drafts}
        self.comments = {each["id"]: each for each in diff.comments}
        self.known = {line.rstrip() for line in write(diff).split("\n")}
        self.files_seen: set[int] = set()
        self.at: Lines | None = None
        self.note: tuple[str, str] | None = None
        self.text: list[tuple[int, str]] = []
        self.found: dict[str, list[Any]] = {name: [] for name in Edits._fields}
        self.problems: list[Problem] = []

    def parse(self, lines: list[str]) -> Edits:
        for number, line in enumerate(lines, 1):
            numbers = WRITTEN.match(line)
            if numbers is None:
                self.text.append((number, line))
                continue
            self._end_text(number)
            self._written(number, line, numbers)
        self._end_text(len(lines))
        if self.found["notes"]:
            self._check_files()
        if self.problems:
            raise UnreadableEdits(sorted(self.problems))
        general = "\n\n".join(self.found.pop("general"))
        return Edits(general, **{name: tuple(each) for name, each in self.found.items()})

    # -- lines of detent ---------------------------------------------------------------------

    def _written(self, number: int, line: str, numbers: re.Match[str]) -> None:
        note = NOTE.match(line)
        if note is not None:
            self._begin_note(number, note[1], note[2])
        elif line.rstrip() not in self.known:
            self._problem(number, self._changed(line))
        elif numbers[1] is not None:
            before, after = (None if each == "." else int(each) for each in numbers.groups())
            self.at, self.note = _line_of(self.at, before, after), None
        elif file := FILE.match(line):
            self.files_seen.add(int(file[1]))
            path = self.diff.files[int(file[1]) - 1]["path"]
            self.at, self.note = Lines(path, "after", 0, 0), None
        elif line.rstrip() == ELSEWHERE:
            self.at, self.note = None, NOTHING
        elif line.startswith(HUNK):
            self.note = NOTHING

    def _begin_note(self, number: int, kind: str, note_id: str) -> None:
        if kind == "draft" and note_id in self.drafts:
            self.note = ("draft", note_id)
        elif kind == "comment" and note_id in self.comments:
            self.note = ("comment", note_id)
        else:
            self._problem(number, f"there is no {kind} {note_id}; delete this line")

    def _changed(self, line: str) -> str:
        found = DIFF.match(line)
        if found is not None:
            return f"this file is about the diff {found[1][:12]}, not {self.diff.sha256[:12]}"
        return f"this is no line of the diff; your text must not begin with {BAR} or numbers"

    def _check_files(self) -> None:
        for number, file in enumerate(self.diff.files, 1):
            if number not in self.files_seen:
                name = _one_line(file["path"])
                self._problem(1, f"the line '{BAR} file {number}: {name}' is missing; restore it")

    def _problem(self, number: int, message: str) -> None:
        self.problems.append(Problem(number, message))

    # -- texts -------------------------------------------------------------------------------

    def _end_text(self, number: int) -> None:
        """Use the text that ends here for what precedes it."""
        lines = [each for each in self.text if each[1].strip()]
        begins = lines[0][0] if lines else number
        directive = DIRECTIVE.fullmatch(lines[0][1]) if lines else None
        rest = [line for at, line in self.text if directive is None or at > begins]
        text = _without_backslashes(normal("\n".join(rest)))
        self.text = []
        if self.note is not None and self.note[0] == "draft":
            self._draft(begins, self.note[1], text, directive)
            self.note = NOTHING
        elif (text or directive is not None) and self.note == NOTHING:
            self._problem(begins, "this text is below no line of the diff and no comment; move it")
        elif text or directive is not None:
            self._new(begins, text, directive)

    def _draft(
        self, number: int, draft_id: str, text: str, directive: re.Match[str] | None
    ) -> None:
        draft = self.drafts[draft_id]
        if not text:
            self.found["deleted_drafts"].append(draft_id)
        elif draft["reply_to"] is not None:
            self._reply(number, draft["reply_to"], text, directive, draft_id)
        elif self.at is None:  # its lines are not in this diff
            self.found["notes"].append(Note(text, draft_id=draft_id))
        else:
            self._comment(number, text, directive, draft_id)

    def _new(self, number: int, text: str, directive: re.Match[str] | None) -> None:
        if self.note is not None:
            self._reply(number, self.note[1], text, directive)
        elif self.at is not None:
            self._comment(number, text, directive)
        elif directive is not None:
            self._problem(number, "the comment on the whole work has no lines")
        else:
            self.found["general"].append(text)

    def _reply(
        self,
        number: int,
        comment_id: str,
        text: str,
        directive: re.Match[str] | None,
        draft_id: str | None = None,
    ) -> None:
        if directive is not None and directive[4] is None:
            self._problem(number, "a reply has no lines; write below a line of the diff")
        elif directive is not None:
            self.found["resolved" if directive[4] == "resolve" else "reopened"].append(comment_id)
        if text:
            self.found["notes"].append(Note(text, None, comment_id, draft_id))

    def _comment(
        self,
        number: int,
        text: str,
        directive: re.Match[str] | None,
        draft_id: str | None = None,
    ) -> None:
        assert self.at is not None
        lines = self.at if directive is None else _lines_from(self.at, directive)
        if lines is None:
            self._problem(number, f"{directive[0] if directive else ''} belongs below a comment")
        elif not text:
            self._problem(number, "the comment has no text")
        elif not self.diff.shows(lines):
            shown = where_text(lines._asdict())
            self._problem(number, f"the diff does not show {_one_line(shown)}")
        else:
            self.found["notes"].append(Note(text, lines, None, draft_id))


def _without_backslashes(text: str) -> str:
    return "\n".join(
        line[1:] if line.startswith("\\") and _is_special(line, first=number == 0) else line
        for number, line in enumerate(text.split("\n"))
    )


def _lines_from(at: Lines, directive: re.Match[str]) -> Lines | None:
    if directive[4] is not None:
        return None
    start = int(directive[2])
    return Lines(at.file, directive[1] or at.side, start, int(directive[3] or start))
