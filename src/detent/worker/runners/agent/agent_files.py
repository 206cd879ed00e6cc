"""Reads the question file and the summary file of an agent. `worker.run_files` opens them.

Any content of the question file has a defined result: a question, a summary, or a question that
explains why the file could not be read. Nothing is discarded.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from detent.errors import DetentError
from detent.kernel.evidence_types import is_question
from detent.redaction import redact, redact_value
from detent.worker.run_files import RunFiles

QUESTION, SUMMARY = "question.json", "summary.md"
MAX_QUESTION_BYTES = 1_048_576
MAX_SUMMARY_BYTES = 1_048_576
LONGEST_TEXT = 10_000
LONGEST_SUMMARY = 100_000
MAX_OPTIONS = 20
LONGEST_EXPIRY_S = 10 * 365 * 86_400


class Asked(NamedTuple):
    """A question for a person."""

    text: str
    options: tuple[Any, ...] = ()
    default: Any = None
    expires_in_s: float | None = None
    #: The agent's question could not be read: the answer is passed to it as it is.
    unreadable: bool = False
    #: Whether an answer other than the options is allowed.
    other: bool = False

    def detail(self) -> dict[str, Any]:
        """The detail of the wait for the answer."""
        default = {} if self.default is None else {"default": self.default}
        other = {"other": True} if self.other else {}
        return {"text": self.text, "options": list(self.options), **other, **default}


class Left(NamedTuple):
    """The content of the question file, and how it is stored as evidence."""

    asked: Asked | None = None
    summary: str | None = None
    data: bytes | None = None


def question_in(files: RunFiles) -> Left:
    """Read the agent's question file."""
    try:
        data = files.left(QUESTION, MAX_QUESTION_BYTES)
    except (DetentError, OSError) as error:
        return Left(_unreadable(str(error)))
    if data is None or not data.strip():
        return Left()
    return _read(data)._replace(data=data)


def _read(data: bytes) -> Left:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = data.decode("utf-8", "replace").strip()
    if isinstance(found, str):
        found = {"text": found}
    if not isinstance(found, Mapping) or not isinstance(found.get("text"), str):
        return Left(_unreadable(f"{QUESTION} has no text"))
    options = found.get("options") or []
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        return Left(_unreadable(f"{QUESTION}: options is no list of at most {MAX_OPTIONS}"))
    text = redact(found["text"]).strip()
    if not is_question(text, options):
        return Left(summary=text[:LONGEST_SUMMARY])
    return Left(asked_from({**found, "text": text[:LONGEST_TEXT], "options": options}))


def asked_from(found: Mapping[str, Any]) -> Asked:
    """A question from a JSON object. An invalid expiry is ignored."""
    expires = found.get("expires_in_s")
    number = isinstance(expires, int | float) and not isinstance(expires, bool)
    timely = number and 0 < float(expires or 0) <= LONGEST_EXPIRY_S
    return Asked(
        redact(str(found["text"])),
        tuple(redact_value(each) for each in found.get("options") or ()),
        redact_value(found.get("default")),
        float(expires or 0) if timely else None,
        other=found.get("other") is True,
    )


def _unreadable(why: str) -> Asked:
    text = f"The agent has left a question that cannot be read: {why} What should it do?"
    return Asked(redact(text), unreadable=True)


def summary_in(files: RunFiles) -> tuple[str | None, str | None]:
    """The agent's summary, and the problem with it; both None if there is no summary."""
    try:
        data = files.left(SUMMARY, MAX_SUMMARY_BYTES)
    except (DetentError, OSError) as error:
        return None, str(error)
    text = "" if data is None else redact(data.decode("utf-8", "replace")).strip()
    return (text[:LONGEST_SUMMARY] or None), None
