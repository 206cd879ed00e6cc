"""Transactional enqueue: the INSERT that submits work within a transaction of your application.

Your rows and the submission are committed together or not at all. The keeper accepts the submission
after the commit.
"""

import json
from typing import Any

from detent.errors import Invalid

#: The placeholders of each parameter style: psycopg and most others; sqlite3 and apsw; asyncpg.
PLACEHOLDERS = {
    "format": ("%s", "%s", "%s"),
    "qmark": ("?", "?", "?"),
    "numeric": ("$1", "$2", "$3"),
}


def intake_row(
    intent: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    style: str = "format",
    operation: str = "submit_task",
    **fields: Any,
) -> tuple[str, tuple[str, str, str | None]]:
    """The statement and its values, to be executed on your own connection.

    With psycopg: `connection.execute(*detent.intake_row("runQA", {"project": "demo"}))`. Other
    fields are those of a submission (`project`, `title`, `priority`, `tags`, …). The task is queued
    when it is accepted, unless `run=False` is given.
    """
    if style not in PLACEHOLDERS:
        listed = ", ".join(PLACEHOLDERS)
        raise Invalid(
            f"style must be one of {listed}, not {style!r}.",
            field="style",
            given=style,
            allowed=tuple(PLACEHOLDERS),
        )
    if operation == "submit_task":
        fields.setdefault("run", True)
    body = {"intent": intent, **({} if payload is None else {"payload": payload}), **fields}
    try:
        text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise Invalid(f"The payload is not valid JSON: {error}.", field="payload") from None
    placeholders = ", ".join(PLACEHOLDERS[style])
    statement = f"INSERT INTO intake (operation, body, idempotency_key) VALUES ({placeholders})"
    return statement, (operation, text, idempotency_key)
