"""What a person has written about a diff, as requests: drafts to save or delete, comments resolved.

The id of a new draft is computed from its text and its place. So the same file can be sent again
after an interruption: a draft that was saved or published before is not repeated.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from detent.cli.annotated_diff import AnnotatedDiff, lines_of
from detent.cli.connection import Connection
from detent.cli.edit_file import Edits, Note, normal
from detent.errors import DetentError
from detent.quantity import quantity


class Request(NamedTuple):
    """A call of an operation about a task."""

    operation: str
    arguments: dict[str, Any]

    def names_diff(self) -> bool:
        """Whether it is refused if the diff under review is another one."""
        return "diff" in self.arguments


def requests_of(diff: AnnotatedDiff, edits: Edits) -> Iterator[Request]:
    """The requests that store the edits; a draft that has not changed needs none."""
    drafts = {each["id"]: each for each in diff.drafts}
    for note in edits.notes:
        known = drafts.get(note.draft_id or "")
        if known is None:
            yield Request("save_draft", _new(diff, note))
        elif note.lines not in (None, lines_of(known)):
            yield Request("save_draft", {**_new(diff, note), "draft_id": known["id"]})
        elif note.text != normal(known["text"]):
            about = {"reply_to": known["reply_to"]} if known["reply_to"] else known["anchor"]
            yield Request("save_draft", {"draft_id": known["id"], "text": note.text, **about})
    yield from (Request("delete_draft", {"draft_id": each}) for each in edits.deleted_drafts)
    yield from (Request("resolve_comment", {"comment_id": each}) for each in edits.resolved)
    yield from (Request("reopen_comment", {"comment_id": each}) for each in edits.reopened)


def _new(diff: AnnotatedDiff, note: Note) -> dict[str, Any]:
    """The arguments of a new draft."""
    identity = json.dumps([diff.task_id, diff.sha256, note.lines, note.reply_to, note.text])
    draft_id = hashlib.sha256(identity.encode()).hexdigest()[:32]
    own = {"draft_id": draft_id, "text": note.text}
    if note.lines is None:
        return {**own, "reply_to": note.reply_to}
    return {**own, "diff": diff.sha256, **note.lines._asdict()}


def send(detent: Connection, diff: AnnotatedDiff, requests: Iterable[Request]) -> str:
    """Send the requests; a sentence about what was done."""
    done = dict.fromkeys(("save_draft", "delete_draft", "resolve_comment", "reopen_comment"), 0)
    for each in requests:
        try:
            detent.call(each.operation, task_id=diff.task_id, **each.arguments)
        except DetentError as error:
            if error.code != "comment_exists":  # it was published before
                raise
        else:
            done[each.operation] += 1
    counted = {
        "saved": quantity(done["save_draft"], "draft"),
        "deleted": quantity(done["delete_draft"], "draft"),
        "resolved": quantity(done["resolve_comment"], "comment"),
        "reopened": quantity(done["reopen_comment"], "comment"),
    }
    parts = [f"{count} {verb}" for verb, count in counted.items() if not count.startswith("0 ")]
    return f"{', '.join(parts)}." if parts else "No draft has changed."
