"""A file of a diff as lines for a terminal: its name, its hunks, and what they do not show."""

from collections.abc import Iterator, Mapping
from typing import Any

from detent.cli.output import Styled, visible

STYLES = {"added": "green", "removed": "red", "context": ""}
SIGNS = {"added": "+", "removed": "-", "context": " "}
NO_NEWLINE = "\\ No newline at end of file"
CARRIAGE_RETURN = "\r"
#: What git stores under these modes; a plain file needs no word.
MODES = {"100755": "Executable file.", "120000": "Symbolic link.", "160000": "Submodule."}

Json = Mapping[str, Any]


def file_lines(file: Json) -> Iterator[Styled]:
    """All lines of a file with its hunks."""
    yield from file_heading(file)
    for hunk in file["hunks"]:
        yield hunk_heading(hunk)
        for line in hunk["lines"]:
            yield from line_texts(line)


def file_name(file: Json) -> str:
    """The path of a file; of a renamed file, both."""
    old = file["old_path"]
    path = visible(file["path"])
    return path if old is None else f"{visible(old)} -> {path}"


def file_heading(file: Json) -> Iterator[Styled]:
    """The name of a file with its numbers of lines, and notes about it."""
    yield Styled(f"{file_name(file)}  +{file['added']} -{file['removed']}", "bold")
    for note in _notes(file):
        yield Styled(note, "")


def _notes(file: Json) -> Iterator[str]:
    """What the lines of a file do not show."""
    if file["binary"]:
        yield "Binary file."
    old, new = file.get("old_mode"), file.get("new_mode")
    if old and new and old != new:
        yield f"Mode: {old} -> {new}."
    elif note := MODES.get(new or old or ""):
        yield note
    if file.get("base_changed"):
        yield "The file had another base in that round: only lines that both diffs show are here."
    if file["truncated"]:
        yield "Lines are missing here: the file is too long, or the diff was cut off."


def hunk_heading(hunk: Json) -> Styled:
    """The line with the numbers of a hunk."""
    before = f"-{hunk['before_start']},{hunk['before_count']}"
    after = f"+{hunk['after_start']},{hunk['after_count']}"
    return Styled(f"@@ {before} {after} @@ {hunk['heading']}".rstrip(), "cyan")


def line_texts(line: Json) -> Iterator[Styled]:
    """A line with its sign, and what follows it."""
    yield Styled(signed_text(line), STYLES[line["kind"]])
    if line["no_newline"]:
        yield Styled(NO_NEWLINE, "")


def signed_text(line: Json) -> str:
    """A line with its sign. Hidden characters are shown, except that of a CRLF line end."""
    return f"{SIGNS[line['kind']]}{visible(line['text'].removesuffix(CARRIAGE_RETURN))}"
