"""Edits as unified diffs: from replaced texts, from written files and from patches.

The agent's line does not say where in the file the text is, so line numbers begin at 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from detent.transcript import json_fields as fields
from detent.transcript.transcript_item import clip

PATHS = ("file_path", "filePath", "path", "notebook_path", "target_file", "filename")
BEFORE = ("old_string", "oldString", "old_str", "oldText", "old_text")
AFTER = ("new_string", "newString", "new_str", "newText", "new_text", "new_source")
CONTENT = ("content", "file_text", "fileText", "contents", "text")
PATCH = ("patch", "patchText", "patch_text", "input")
#: Tools whose content becomes the whole file.
WRITERS = frozenset({"write", "write_file", "writefile", "create", "create_file", "notebookedit"})
BEGIN_PATCH = "*** Begin Patch"
FILE_MARKS = ("*** Update File: ", "*** Add File: ", "*** Delete File: ")
#: Lines around a change, and the largest comparison of lines before with lines after.
CONTEXT, MAX_COMPARED = 3, 2_500
NOTHING = "/dev/null"


class Edit(NamedTuple):
    """The change of one file."""

    path: str | None
    diff: str | None


def edits_of(tool: str, given: Mapping[str, Any]) -> list[Edit]:
    """The edits that a tool call makes; empty if the tool does not edit files."""
    patch = next((given[each] for each in PATCH if isinstance(given.get(each), str)), "")
    if patch.lstrip().startswith(BEGIN_PATCH):
        return patch_edits(patch)
    path = fields.name(given, *PATHS)
    if path is None:
        return []
    pairs = [_pair(each) for each in (given, *fields.blocks(given.get("edits")))]
    replaced = [each for each in pairs if each is not None]
    if replaced:
        return [Edit(path, _replacements(path, replaced))]
    content = next((given[each] for each in CONTENT if isinstance(given.get(each), str)), None)
    if content is not None and (tool.lower() in WRITERS or given.get("command") == "create"):
        return [Edit(path, written(path, content))]
    return []


def _pair(given: Mapping[str, Any]) -> tuple[str, str] | None:
    before = next((given[each] for each in BEFORE if isinstance(given.get(each), str)), None)
    after = next((given[each] for each in AFTER if isinstance(given.get(each), str)), None)
    if before is None and after is None:
        return None
    return before or "", after or ""


def written(path: str, content: str) -> str:
    """A whole file as added lines."""
    lines = _lines(content)
    head = f"{_head(path, new=True)}@@ -0,0 +1,{len(lines)} @@\n"
    return clip(head + "".join(f"+{each}\n" for each in lines))


def _replacements(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    hunks = "".join(hunk for before, after in pairs for hunk in _hunks(before, after))
    return clip(_head(path) + hunks)


def _head(path: str, *, new: bool = False) -> str:
    """The lines that name the file; a line break in its name would look like a line of the diff."""
    name = path.replace("\n", " ")
    return f"--- {NOTHING if new else 'a/' + name}\n+++ b/{name}\n"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _hunks(before: str, after: str) -> Iterator[str]:
    old, new = _lines(before), _lines(after)
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        body = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                body += [f" {each}\n" for each in old[i1:i2]]
                continue
            body += [f"-{each}\n" for each in old[i1:i2]]
            body += [f"+{each}\n" for each in new[j1:j2]]
        spans = (_span(first[1], last[2]), _span(first[3], last[4]))
        yield f"@@ -{spans[0]} +{spans[1]} @@\n" + "".join(body)


def _span(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"


Opcode = tuple[str, int, int, int, int]


def _groups(old: list[str], new: list[str]) -> list[list[Opcode]]:
    """The changed parts with context. A large text is compared only at its start and its end."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    tail = next((at for at in range(most - head) if old[-1 - at] != new[-1 - at]), most - head)
    ends = (len(old) - tail, len(new) - tail)
    if (ends[0] - head) * (ends[1] - head) <= MAX_COMPARED:
        matcher = SequenceMatcher(None, old[head : ends[0]], new[head : ends[1]], autojunk=False)
        middle = [
            (tag, i1 + head, i2 + head, j1 + head, j2 + head)
            for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    else:
        middle = [("replace", head, ends[0], head, ends[1])]
    if not any(each[0] != "equal" for each in middle):
        return []
    start, end = max(head - CONTEXT, 0), min(tail, CONTEXT)
    before = [("equal", start, head, start, head)] if head > start else []
    after = [("equal", ends[0], ends[0] + end, ends[1], ends[1] + end)] if end else []
    return [[*before, *middle, *after]]


def patch_edits(patch: str) -> list[Edit]:
    """The edits of a patch in the format of `apply_patch`, one for each file."""
    edits: list[Edit] = []
    path: str | None = None
    body: list[str] = []
    for line in patch.split("\n"):
        mark = next((each for each in FILE_MARKS if line.startswith(each)), None)
        if mark is not None or line.startswith("*** End Patch"):
            edits += _patched(path, body)
            path = None if mark is None else line.removeprefix(mark).strip()
            body = [] if mark != FILE_MARKS[1] else [f"--- {NOTHING}"]
        elif path is not None:
            body.append(line)
    edits += _patched(path, body)
    return edits


def _patched(path: str | None, body: list[str]) -> list[Edit]:
    if path is None:
        return []
    added = body[:1] == [f"--- {NOTHING}"]
    hunks = "".join(_patch_hunks(body[1:] if added else body))
    return [Edit(fields.name({"path": path}, "path"), clip(_head(path, new=added) + hunks))]


def _patch_hunks(body: list[str]) -> Iterator[str]:
    """Hunks with counts: a patch has only `@@`, with a heading or without."""
    heading, lines = "", list[str]()
    for line in [*body, "@@"]:
        if not line.startswith("@@"):
            if line[:1] in ("+", "-", " ") or not line:
                lines.append(line or " ")
            continue
        while lines and lines[-1] == " ":
            lines.pop()
        if lines:
            old = sum(each[0] != "+" for each in lines)
            new = sum(each[0] != "-" for each in lines)
            spans = (_span(0, old), _span(0, new))
            yield f"@@ -{spans[0]} +{spans[1]} @@{heading}\n" + "".join(f"{x}\n" for x in lines)
        heading, lines = line[2:].rstrip(" @"), []
