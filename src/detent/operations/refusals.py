"""Rows of the table `intake` that were refused: shown in the inbox until a person drops them.

A program that submits in its own transaction cannot be told of a flaw when it inserts the row.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from detent import views
from detent.errors import DetentError, NotFound
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.redaction import redact
from detent.store.port import Reading, RefusedIntake, Writing
from detent.submission.checks import DEFAULT_PROJECT

MAX_ROWS = 1_000
MAX_SHOWN = 2_000


@operation(Scope.READ, "GET", "/api/intake")
def list_refused(core: Core, caller: Caller) -> schemas.RefusedRows:
    """Submissions of other programs' transactions that were refused, oldest first."""
    with core.store.read() as view:
        return {"items": list(refused_rows(view, caller, None))}


@operation(Scope.OPERATE, "DELETE", "/api/intake/{intake_id}")
def drop_refused(core: Core, caller: Caller, *, intake_id: str) -> schemas.Deleted:
    """Drop a refused submission for good."""

    def write(tx: Writing) -> bool:
        if all(row["id"] != intake_id for row in refused_rows(tx, caller, None)):
            raise NotFound(
                f"There is no refused submission {intake_id}.", hint="See `detent inbox --list`."
            )
        tx.end_intake([int(intake_id)], {})
        return True

    core.engine.transaction(write)
    return {"id": intake_id, "outcome": "deleted"}


def refused_rows(
    view: Reading, caller: Caller, project: str | None
) -> Iterator[schemas.RefusedRow]:
    """The refused rows that a caller may see, of one project or of all."""
    for row in view.refused_intake(MAX_ROWS):
        shown = _shown(row)
        if caller.project in (None, shown["project"]) and project in (None, shown["project"]):
            yield shown


def problem(error: DetentError) -> str:
    """An error as the text that is stored with the row."""
    document = {"code": error.code, "detail": error.message, "hint": error.hint, **error.details}
    return msgspec.json.encode(document, enc_hook=str).decode()


def _shown(row: RefusedIntake) -> schemas.RefusedRow:
    body, error = _object(row.body), _object(row.error)
    detail = str(error.get("detail", row.error))
    field = error.get("field")
    return {
        "id": str(row.id),
        "operation": row.operation,
        "project": str(_project(row.operation, body) or DEFAULT_PROJECT),
        "intent": str(body.get("intent", "")),
        "body": redact(row.body[:MAX_SHOWN]),
        "idempotency_key": row.idempotency_key,
        "refused_at": views.utc(row.at),
        "code": str(error.get("code", "invalid")),
        "field": None if field is None else str(field),
        "detail": redact(detail),
    }


def _project(operation: str, body: Mapping[str, Any]) -> Any:
    """The project that a row names; that of a board task stands in its payload."""
    place = body.get("payload") if operation == "add" else body
    return place.get("project") if isinstance(place, dict) else None


def _object(text: str) -> Mapping[str, Any]:
    """The object that a text spells; none where it spells something else."""
    try:
        found = msgspec.json.decode(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
