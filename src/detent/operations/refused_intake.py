"""Refused rows of the table `intake`: they are in the inbox until a person deletes them.

A program that submits in its own transaction gets no error when it inserts the row.
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
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import RefusedIntake
from detent.submission.checks import DEFAULT_PROJECT

MAX_ROWS = 1_000
MAX_SHOWN = 2_000


@operation(Scope.READ, "GET", "/api/intake")
def list_refused(core: Core, caller: Caller) -> schemas.RefusedRows:
    """List the refused submissions from the table `intake`, oldest first."""
    with core.store.read() as view:
        return {"items": list(refused_rows(view, caller, None))}


@operation(Scope.OPERATE, "DELETE", "/api/intake/{intake_id}")
def drop_refused(core: Core, caller: Caller, *, intake_id: str) -> schemas.Deleted:
    """Delete a refused submission."""

    def write(tx: WriteTransaction) -> None:
        if all(row["id"] != intake_id for row in refused_rows(tx, caller, None)):
            raise NotFound(
                f"There is no refused submission {intake_id!r}.", hint="See `detent inbox --list`."
            )
        tx.end_intake([int(intake_id)], {})

    core.engine.transaction(write)
    return {"id": intake_id, "outcome": "deleted"}


def refused_rows(
    view: ReadTransaction, caller: Caller, project: str | None
) -> Iterator[schemas.RefusedRow]:
    """The refused rows that the caller may see, of one project or of all."""
    for row in view.refused_intake(MAX_ROWS):
        shown = _to_schema(row)
        if caller.may_see(shown["project"]) and project in (None, shown["project"]):
            yield shown


def problem(error: DetentError) -> str:
    """The JSON text of an error, which is stored with the row."""
    document = {"code": error.code, "detail": error.message, "hint": error.hint, **error.details}
    return msgspec.json.encode(document, enc_hook=str).decode()


def _to_schema(row: RefusedIntake) -> schemas.RefusedRow:
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
    """The project of a row; for `add` it is a field of the payload."""
    fields = body.get("payload") if operation == "add" else body
    return fields.get("project") if isinstance(fields, dict) else None


def _object(text: str) -> Mapping[str, Any]:
    """The JSON object in a text; empty if the text is something else."""
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
