"""Submitting work from a transaction of your own: the row to insert, for any database driver.

Your rows and the submission become durable together or not at all; detent takes it in right after.
"""

import json
from typing import Any

from detent.errors import Invalid

#: How drivers write the place of a value: psycopg and most others, sqlite3 and apsw, asyncpg.
PLACES = {"format": ("%s", "%s", "%s"), "qmark": ("?", "?", "?"), "numeric": ("$1", "$2", "$3")}


def intake_row(
    intent: str,
    payload: Any = None,
    *,
    idempotency_key: str | None = None,
    style: str = "format",
    operation: str = "submit_task",
    **fields: Any,
) -> tuple[str, tuple[str, str, str | None]]:
    """A statement and its values, to be executed on your own connection.

    `connection.execute(*detent.intake_row("runQA", {"project": "demo"}))` with psycopg. Further
    fields are those of the submission (`project`, `title`, `priority`, `tags`, …). A task that is
    left in this way is queued at once unless `run=False` is given.
    """
    if style not in PLACES:
        listed = ", ".join(PLACES)
        raise Invalid(
            f"style must be one of {listed}.", field="style", given=style, allowed=tuple(PLACES)
        )
    if operation == "submit_task":
        fields.setdefault("run", True)
    body = {"intent": intent, **({} if payload is None else {"payload": payload}), **fields}
    try:
        text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise Invalid(f"payload cannot be stored: {error}.", field="payload") from None
    places = ", ".join(PLACES[style])
    statement = f"INSERT INTO intake (operation, body, idempotency_key) VALUES ({places})"
    return statement, (operation, text, idempotency_key)
