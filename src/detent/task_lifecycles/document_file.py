"""Reads the document of a lifecycle from TOML text; an error names the line and the field."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from detent.errors import Invalid
from detent.kernel import lifecycle_document
from detent.kernel.lifecycle_lint import Flaw
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.task_lifecycles.document_lines import line_of

LIMIT_BYTES = 64 * 1024
#: Messages of `tomllib` for a table and for a key that exist already.
DECLARED_TWICE = re.compile(r"Cannot (?:declare \((.*?),?\) twice|overwrite a value)")
AT_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def text_of(content: bytes, name: str) -> str:
    """The text of a document; refused with the name of the file and the line if it is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise Invalid(
            f"{name}:{line}: The file is not UTF-8 text.",
            code="unreadable",
            field="file",
            hint="Save the file with the encoding UTF-8.",
        ) from None


def read_document(text: str, name: str = "document") -> tuple[Mapping[str, Any], TaskLifecycle]:
    """Return a document as plain values, and the lifecycle that it declares.

    `name` is the file's name in messages. Whether the lifecycle makes sense is not checked here.
    """
    if len(text.encode("utf-8", "replace")) > LIMIT_BYTES:
        raise _too_large(text, name)
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))  # editors may add a byte order mark
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(text, str(error), name) from None
    except RecursionError:
        raise _located(_unreadable("It is nested too deeply."), 1, name) from None
    try:
        return document, lifecycle_document.read(document)
    except Invalid as error:
        raise _located(error, line_of(text, error.field), name) from None


def located(text: str, flaws: Iterable[Flaw]) -> list[dict[str, Any]]:
    """Return the flaws of a document as plain values, each with its line."""
    return [{"line": line_of(text, flaw.field), **flaw.plain()} for flaw in flaws]


def _located(error: Invalid, line: int, name: str) -> Invalid:
    """Return the same error with the name of the file and the line."""
    found = Invalid(
        f"{name}:{line}: {error.message}",
        field=error.field,
        given=error.given,
        allowed=error.allowed,
        code=error.code,
        hint=error.hint,
    )
    found.details |= {"file": name, "line": line}
    return found


def _not_toml(text: str, message: str, name: str) -> Invalid:
    """What `tomllib` refuses. A table or key that exists twice has a message of its own."""
    found = AT_LINE.search(message)
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    reason = AT_LINE.sub("", message)
    twice = DECLARED_TWICE.match(reason)
    if twice is None:
        return _located(_unreadable(f"{reason}."), line, name)
    key = text.split("\n")[line - 1].partition("=")[0].strip()
    field = ".".join(part.strip(" '\"") for part in twice[1].split(",")) if twice[1] else key
    message = f"{field} is declared a second time. Remove or rename one of the two."
    return _located(Invalid(message, field=field), line, name)


def _unreadable(reason: str) -> Invalid:
    return Invalid(
        f"The document is not valid TOML: {reason}",
        field="document",
        code="unreadable",
        hint="Correct the line that the error names.",
    )


def _too_large(text: str, name: str) -> Invalid:
    line = text.encode("utf-8", "replace")[:LIMIT_BYTES].count(b"\n") + 1
    message = f"The document is larger than {LIMIT_BYTES // 1024} KiB, the limit."
    return _located(Invalid(message, field="document", code="too_large"), line, name)
