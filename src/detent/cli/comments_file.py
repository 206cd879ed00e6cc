"""Comments in a file: a text that `detent review` has opened in an editor, or a JSON list."""

import json
from collections.abc import Mapping
from typing import Any

from detent.cli.annotated_diff import AnnotatedDiff, Lines, where_text
from detent.cli.edit_file import Edits, Note, UnreadableEdits, normal, parse
from detent.errors import Invalid

#: The fields of a comment and of a reply in a JSON list, with their types.
COMMENT: Mapping[str, type] = {"file": str, "side": str, "start": int, "end": int, "text": str}
REPLY: Mapping[str, type] = {"reply_to": str, "text": str}
FORM = (
    'a JSON list of {"file", "start", "end", "side", "text"} and {"reply_to", "text"}, or a text '
    "from the editor of `detent review`"
)


def edits_in(diff: AnnotatedDiff, data: bytes, name: str) -> Edits:
    """The edits in the content of a file; refused as a whole if a part of it is wrong."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _unreadable(f"{name} is not UTF-8 text.") from None
    if text.lstrip().startswith("["):
        return Edits(notes=tuple(_notes(diff, text, name)))
    try:
        return parse(diff, text)
    except UnreadableEdits as error:
        raise _unreadable(f"{name}: {error}.") from None


def _notes(diff: AnnotatedDiff, text: str, name: str) -> list[Note]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"{name} is not JSON: {error}.") from None
    items = ((f"{name}: item {number}", each) for number, each in enumerate(found, 1))
    return [_checked(diff, _note(each, item), item) for item, each in items]


def _checked(diff: AnnotatedDiff, note: Note, name: str) -> Note:
    """The note, if the diff has its lines, or the comment that it replies to."""
    if note.lines is not None and not diff.shows(note.lines):
        raise _unreadable(f"{name}: the diff does not show {where_text(note.lines._asdict())}.")
    if note.lines is None and note.reply_to not in {each["id"] for each in diff.comments}:
        raise _unreadable(f"{name}: there is no comment {note.reply_to}.")
    return note


def _note(given: Any, name: str) -> Note:
    if not isinstance(given, dict):
        raise _unreadable(f"{name} is not an object.")
    fields = REPLY if "reply_to" in given else COMMENT
    for field, value in given.items():
        if field not in fields or type(value) is not fields[field]:
            raise _unreadable(f"{name} must have {_form(fields)}; not {field} = {value!r:.80}.")
    needed = tuple(REPLY) if "reply_to" in given else ("file", "text")
    missing = [each for each in needed if each not in given]
    if missing or not given["text"].strip():
        raise _unreadable(f"{name} has no {(missing or ['text'])[0]}.")
    if "reply_to" in given:
        return Note(normal(given["text"]), None, given["reply_to"])
    start: int = given.get("start", 0)
    end: int = given.get("end", start)
    lines = Lines(given["file"], given.get("side", "after"), start, end)
    return Note(normal(given["text"]), lines)


def _form(fields: Mapping[str, type]) -> str:
    kinds = {str: "text", int: "integer"}
    return ", ".join(f"{name} ({kinds[kind]})" for name, kind in fields.items())


def _unreadable(message: str) -> Invalid:
    return Invalid(message, code="unreadable", field="comments", hint=f"Give {FORM}.")
