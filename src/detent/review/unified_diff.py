"""Parser of the output of `git diff --binary`: files, hunks and numbered lines. Pure.

The input is untrusted, and it may be cut off. Inside a hunk only the counts of its header decide
where it ends, so that no content is read as a header. Content is decoded as UTF-8 with replacement
characters. Lines are decoded when they are used.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Literal, NamedTuple

from detent.review.git_names import both_names, plain_name, side_name, text_of

Side = Literal["before", "after"]
Kind = Literal["context", "added", "removed"]
Status = Literal["added", "deleted", "modified", "renamed", "copied"]

FILE = b"diff --git "
HUNK = re.compile(
    rb"@@ -(\d{1,15})(?:,(\d{1,15}))? \+(\d{1,15})(?:,(\d{1,15}))? @@(?: (.*))?", re.DOTALL
)
INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
MODE = re.compile(rb"(old mode|new mode|new file mode|deleted file mode) ([0-7]{6})")
#: Each begins a line that names one file.
NAMES = (b"rename from ", b"rename to ", b"copy from ", b"copy to ", b"--- ", b"+++ ")
BINARY_PATCH = b"GIT binary patch"
BINARY_FILES = (b"Binary files ", b" differ")
NO_NEWLINE = b"\\"
KINDS: Mapping[bytes, Kind] = {b"+": "added", b"-": "removed", b" ": "context", b"": "context"}


class Line(NamedTuple):
    """One line of a hunk, with its number on each side that has it."""

    kind: Kind
    #: Without the line feed; a carriage return is part of the text.
    text: str
    before: int | None
    after: int | None
    #: Whether the file ends with this line, without a line feed.
    no_newline: bool = False


@dataclass(frozen=True, eq=False)
class Hunk:
    """Consecutive lines of a file, with the numbers of its header."""

    before_start: int
    before_count: int
    after_start: int
    after_count: int
    heading: str
    body: Sequence[bytes] = field(repr=False)
    added: int
    removed: int
    size: int
    #: Whether it has all lines that its header announces.
    complete: bool = True

    @property
    def base_before(self) -> int:
        """The number of lines of the old file that precede the hunk."""
        return self.before_start - 1 if self.before_count else self.before_start

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        return tuple(self._lines())

    def _lines(self) -> Iterator[Line]:
        before, after = self.before_start, self.after_start
        for at, raw in enumerate(self.body):
            kind = KINDS.get(raw[:1])
            if kind is None:
                continue
            text = raw[1:].decode("utf-8", "replace")
            last = self.body[at + 1 : at + 2]
            ends = bool(last) and last[0].startswith(NO_NEWLINE)
            if kind == "added":
                yield Line(kind, text, None, after, ends)
                after += 1
            elif kind == "removed":
                yield Line(kind, text, before, None, ends)
                before += 1
            else:
                yield Line(kind, text, before, after, ends)
                before, after = before + 1, after + 1


@dataclass(frozen=True, eq=False)
class FileDiff:
    """The changes of one file."""

    path: str
    #: The earlier name of a renamed file, or the file that was copied.
    old_path: str | None
    status: Status
    old_mode: str | None = None
    new_mode: str | None = None
    #: The names that git gives the contents; None if the diff does not have them.
    old_blob: str | None = None
    new_blob: str | None = None
    binary: bool = False
    hunks: tuple[Hunk, ...] = ()

    @property
    def base_path(self) -> str | None:
        """The name of the file that was changed; None for a new file or a copy."""
        if self.status in ("added", "copied"):
            return None
        return self.old_path or self.path

    @property
    def added(self) -> int:
        return sum(hunk.added for hunk in self.hunks)

    @property
    def removed(self) -> int:
        return sum(hunk.removed for hunk in self.hunks)

    @property
    def size(self) -> int:
        """The number of lines in its hunks."""
        return sum(hunk.size for hunk in self.hunks)

    @property
    def truncated(self) -> bool:
        """Whether lines are missing because the diff was cut off."""
        return not all(hunk.complete for hunk in self.hunks)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that the diff says about the file."""
        facts = (self.path, self.old_path, self.status, self.old_mode, self.new_mode)
        digest = sha256(repr((facts, self.old_blob, self.new_blob)).encode())
        for hunk in self.hunks:
            digest.update(repr((hunk.before_start, hunk.after_start)).encode())
            digest.update(b"\n".join(hunk.body))
        return digest.hexdigest()[:32]

    def lines(self, side: Side) -> Mapping[int, str]:
        """The lines that the hunks show on a side, by number and in order."""
        return self._before if side == "before" else self._after

    @cached_property
    def after_lines(self) -> Counter[str]:
        """How often each line is shown after the change."""
        return Counter(self._after.values())

    @cached_property
    def _before(self) -> Mapping[int, str]:
        shown = (line for hunk in self.hunks for line in hunk.lines)
        return {line.before: line.text for line in shown if line.before is not None}

    @cached_property
    def _after(self) -> Mapping[int, str]:
        shown = (line for hunk in self.hunks for line in hunk.lines)
        return {line.after: line.text for line in shown if line.after is not None}


@dataclass(frozen=True, eq=False)
class Diff:
    """The files of a diff, in its order; no two have the same path."""

    files: tuple[FileDiff, ...]

    def file(self, path: str) -> FileDiff | None:
        """The file with this path."""
        return self._by_path.get(path)

    def with_base(self, path: str) -> FileDiff | None:
        """What became of the file that had this path before."""
        return self._by_base.get(path)

    @cached_property
    def _by_base(self) -> Mapping[str, FileDiff]:
        return {each.base_path: each for each in self.files if each.base_path is not None}

    @cached_property
    def _by_path(self) -> Mapping[str, FileDiff]:
        return {each.path: each for each in self.files}


def parse_diff(data: bytes) -> Diff:
    """Parse a diff. Text before the first file is ignored."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()  # what follows the last line feed is no line
    found: dict[str, FileDiff] = {}
    at = 0
    while at < len(lines):
        if not lines[at].startswith(FILE):
            at += 1
            continue
        file, at = _file(lines, at)
        _add(found, file)
    return Diff(tuple(found.values()))


def _add(found: dict[str, FileDiff], file: FileDiff) -> None:
    """Add a file. A file whose type changed is deleted and added: both are one file here."""
    known = found.get(file.path)
    if known is not None and (known.status, file.status) == ("deleted", "added"):
        found[file.path] = replace(
            known,
            status="modified",
            new_mode=file.new_mode,
            new_blob=file.new_blob,
            binary=known.binary or file.binary,
            hunks=known.hunks + file.hunks,
        )
        return
    path, count = file.path, 1
    while path in found:  # only in a diff that git did not write, or for names that are not UTF-8
        count += 1
        path = f"{file.path} ({count})"
    found[path] = file if count == 1 else replace(file, path=path)


def _file(lines: Sequence[bytes], start: int) -> tuple[FileDiff, int]:
    """The file whose first header line is at `start`, and the index after its last line."""
    header, at = _header(lines, start)
    binary = False
    hunks: list[Hunk] = []
    while at < len(lines) and not lines[at].startswith(FILE):
        hunk, end = _hunk(lines, at)
        if hunk is not None and hunks and not _is_after(hunk, hunks[-1]):
            hunks[-1] = replace(hunks[-1], complete=False)  # git writes hunks in order
        elif hunk is not None:
            hunks.append(hunk)
        begin, final = BINARY_FILES
        differ = lines[at].startswith(begin) and lines[at].endswith(final)
        binary = binary or (not hunks and (lines[at] == BINARY_PATCH or differ))
        at = end
    return _described(lines[start], header, binary, tuple(hunks)), at


def _header(lines: Sequence[bytes], start: int) -> tuple[dict[bytes, bytes], int]:
    """The values of the header lines by their first words, and the index after the header."""
    found: dict[bytes, bytes] = {}
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if line.startswith((FILE, b"@@ ", BINARY_PATCH, BINARY_FILES[0])):
            return found, at
        if mode := MODE.fullmatch(line):
            found[mode[1]] = mode[2]
        elif index := INDEX.fullmatch(line):
            found[b"old blob"], found[b"new blob"] = index[1], index[2]
            if index[3]:
                found[b"old mode"] = found[b"new mode"] = index[3]
        else:
            for name in NAMES:
                if line.startswith(name):
                    found.setdefault(name, line[len(name) :])
    return found, len(lines)


def _described(
    first: bytes, header: Mapping[bytes, bytes], binary: bool, hunks: tuple[Hunk, ...]
) -> FileDiff:
    status, old, new = _status_and_names(first, header)
    old_mode = header.get(b"deleted file mode", header.get(b"old mode"))
    new_mode = header.get(b"new file mode", header.get(b"new mode"))
    return FileDiff(
        text_of(new),
        None if old is None else text_of(old),
        status,
        None if status == "added" else _ascii(old_mode),
        None if status == "deleted" else _ascii(new_mode),
        _ascii(header.get(b"old blob")),
        _ascii(header.get(b"new blob")),
        binary,
        hunks,
    )


def _status_and_names(
    first: bytes, header: Mapping[bytes, bytes]
) -> tuple[Status, bytes | None, bytes]:
    """The status of a file, its old name if it has another one now, and its name."""
    moves: tuple[tuple[bytes, Status], ...] = ((b"rename", "renamed"), (b"copy", "copied"))
    for word, status in moves:
        old, new = header.get(word + b" from "), header.get(word + b" to ")
        if old is not None and new is not None:
            return status, plain_name(old), plain_name(new)
    before = side_name(header.get(b"--- ", b""), b"a/")
    after = side_name(header.get(b"+++ ", b""), b"b/")
    name = after or before or both_names(first[len(FILE) :])
    if b"new file mode" in header or before is None:
        return "added", None, name
    if b"deleted file mode" in header or after is None:
        return "deleted", None, name
    return "modified", None, name


def _ascii(value: bytes | None) -> str | None:
    return None if value is None else value.decode("ascii")


def _hunk(lines: Sequence[bytes], at: int) -> tuple[Hunk | None, int]:
    """The hunk whose header is at `at`, if one is, and the index after it."""
    header = HUNK.fullmatch(lines[at])
    if header is None:
        return None, at + 1
    before = 1 if header[2] is None else int(header[2])
    after = 1 if header[4] is None else int(header[4])
    body, complete = _body(lines, at + 1, before, after)
    firsts = [raw[:1] for raw in body]
    counts = (firsts.count(b"+"), firsts.count(b"-"), len(body) - firsts.count(NO_NEWLINE))
    heading = (header[5] or b"").decode("utf-8", "replace")
    numbers = (int(header[1]), before, int(header[3]), after)
    return Hunk(*numbers, heading, body, *counts, complete), at + 1 + len(body)


def _is_after(hunk: Hunk, earlier: Hunk) -> bool:
    """Whether both sides of a hunk begin after those of an earlier one."""
    before = earlier.base_before + earlier.before_count
    after = earlier.after_start + max(earlier.after_count - 1, 0)
    first = hunk.after_start if hunk.after_count else hunk.after_start + 1
    return hunk.base_before >= before and first > after


def _body(
    lines: Sequence[bytes], start: int, before: int, after: int
) -> tuple[Sequence[bytes], bool]:
    """The lines of a hunk that has this number of lines on each side, and whether it has all."""
    at = start
    for at in range(start, len(lines)):
        first = lines[at][:1]
        if first == b"+" and after:
            after -= 1
        elif first == b"-" and before:
            before -= 1
        elif first in (b" ", b"") and before and after:  # git may leave out the space
            before, after = before - 1, after - 1
        elif first != NO_NEWLINE:
            break
    else:
        at = len(lines)
    return lines[start:at], not before and not after
