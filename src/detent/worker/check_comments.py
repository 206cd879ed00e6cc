"""Findings of a checker that name lines of the diff, as comments on them. Pure.

A finding is untrusted: only lines that the diff shows are commented on, and a finding that is no
comment stays in the evidence, with the reason.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from detent.errors import Invalid
from detent.kernel.commands.review_commands import NewComment
from detent.kernel.decide.comments import check_text
from detent.redaction import redact
from detent.review.comment_lines import Lines, anchor_in
from detent.review.comment_places import Anchor, Place
from detent.review.unified_diff import Diff

#: How many findings of one check become comments.
MAX_COMMENTS = 100


class CheckedDiff(NamedTuple):
    """The diff that a checker has checked; `diff` is None if there is none."""

    task_id: str
    run_id: str
    sha256: str
    diff: Diff | None
    #: Where the open comments of this checker are in it, with their texts and ids.
    known: Mapping[tuple[Place, str], str]


class LineComments(NamedTuple):
    """New comments; and for each finding that names a line, its comment or why it has none."""

    new: tuple[NewComment, ...]
    notes: list[dict[str, Any]]


def line_comments(checked: CheckedDiff, findings: Any) -> LineComments:
    """The comments for the findings of a check. A finding about nothing wrong needs none."""
    new: dict[str, NewComment] = {}
    notes: list[dict[str, Any]] = []
    for number, finding in enumerate(_listed(findings), 1):
        if not isinstance(finding, Mapping) or "file" not in finding or finding.get("ok") is True:
            continue
        try:
            comment_id = _comment(checked, finding, new)
            notes.append({"finding": number, "comment_id": comment_id})
        except Invalid as refusal:
            notes.append({"finding": number, "no_comment": refusal.message})
    return LineComments(tuple(new.values()), notes)


def _listed(findings: Any) -> Iterable[Any]:
    return findings if isinstance(findings, list) else [findings]


def _comment(checked: CheckedDiff, finding: Mapping[str, Any], new: dict[str, NewComment]) -> str:
    """The id of the comment for a finding: a new one, or one that says the same there."""
    if checked.diff is None:
        raise Invalid("The checked work has no diff.", field="file")
    text = redact(_field(finding, str, "text", "message")).replace("\0", "\ufffd")
    check_text(text)
    start = _field(finding, int, "start", "line", default=0)
    end = _field(finding, int, "end", default=start)
    side = _field(finding, str, "side", default="after")
    lines = Lines(checked.sha256, _field(finding, str, "file"), side, start, end)
    anchor = anchor_in(checked.diff, lines)
    known = checked.known.get((_place(anchor), text))
    if known is not None:
        return known
    comment_id = _id(checked.task_id, lines, text)
    if comment_id not in new and len(new) >= MAX_COMMENTS:
        raise Invalid(f"A check adds at most {MAX_COMMENTS} comments.", field="findings")
    quoted = (anchor.file, anchor.side, anchor.start, anchor.end, tuple(anchor.quoted))
    new[comment_id] = NewComment(comment_id, checked.sha256, checked.run_id, *quoted, text)
    return comment_id


def _field(finding: Mapping[str, Any], kind: type, *names: str, default: Any = None) -> Any:
    """The first of these fields that a finding has."""
    name = next((each for each in names if each in finding), names[0])
    value = finding.get(name, default)
    if type(value) is not kind:
        form = {str: "a string", int: "an integer"}[kind]
        raise Invalid(f"{name} must be {form}, not {value!r:.80}.", field=name)
    return value


def _id(task_id: str, lines: Lines, text: str) -> str:
    """The same for the same finding, so that a repeated check adds nothing."""
    identity = json.dumps([task_id, *lines, text])
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _place(anchor: Anchor) -> Place:
    return Place(anchor.file, anchor.side, anchor.start, anchor.end)
