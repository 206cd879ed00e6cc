"""Markers in what detent writes to a forge, by which it finds its own comments again. Pure.

Before detent writes a comment, it reads those that exist. If its own account has written the
marker, an earlier try has written the comment: its process has crashed before the response came.
"""

from collections.abc import Iterable

from detent.integrations.forges.forge import Note
from detent.redaction import redact

START = "<!-- detent:"


def marked(body: str, key: str) -> str:
    """A text for the forge with a marker. Agents and handlers write texts: known secrets in them
    are replaced, and what looks like a marker is none."""
    text = redact(body).replace(START, "<!-- ")
    return f"{text}\n\n{START}{key} -->"


def has_marker(notes: Iterable[Note], key: str, account: str) -> bool:
    """Whether detent's account has written the marker. Others can write the same text."""
    return any(each.author == account and f"{START}{key} -->" in each.body for each in notes)


def is_own(note: Note) -> bool:
    """Whether detent has written the comment; it may share its account with a person."""
    return START in note.body
