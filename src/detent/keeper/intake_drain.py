"""Drains the table `intake`, into which other programs insert submissions.

A program inserts one row into `intake` in the transaction of its own rows (transactional enqueue).
Each row is submitted and deleted in one transaction, so it becomes work exactly once. A refused row
is kept with its error, and is in the inbox until a person deletes it. If the store refuses rows
together, they are submitted one by one, so that none of them blocks the others.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from detent.engine import CommandRequest, CommandResult, batch
from detent.engine.engine import MAX_TRIES, refusal_of
from detent.errors import DetentError, Invalid, Refused, Unavailable
from detent.operations.context import Core
from detent.operations.refused_intake import problem
from detent.operations.registry import OPERATIONS, Caller, Scope
from detent.store.port import WriteTransaction
from detent.store.types import Intake
from detent.submission.context import Context

log = logging.getLogger("detent.intake")

MAX_ROWS = 500
#: The allowed operations: only submissions.
ALLOWED = ("submit_task", "submit_job", "add")
#: The caller of these submissions. The database has checked who may insert rows.
CALLER = Caller("intake", frozenset({Scope.SUBMIT}))


def run(core: Core) -> int:
    """Submit at most `MAX_ROWS` rows; returns their number."""
    with core.store.read() as view:
        if not view.intake(1):
            return 0
    try:
        return core.engine.transaction(lambda tx: _take(core, tx, tx.intake(MAX_ROWS)))
    except Unavailable:
        raise
    except DetentError:
        with core.store.read() as view:
            rows = view.intake(MAX_ROWS)
        return sum(_take_alone(core, row) for row in rows)


def _take_alone(core: Core, row: Intake) -> int:
    """Submit a row in a transaction of its own. If the store refuses it, it is a refused row.

    After a version conflict with another process the row is submitted again.
    """
    refused: DetentError
    for _ in range(MAX_TRIES):
        try:
            return core.engine.transaction(lambda tx: _take(core, tx, _oldest(tx, row)))
        except Unavailable:
            raise
        except DetentError as error:
            refused = error
            if not (isinstance(error, Refused) and error.code == "version_conflict"):
                break
    (request,) = _asks(core, core.submission_context(CALLER), row)
    refused = refusal_of(refused, request)
    core.engine.transaction(lambda tx: _end(tx, [], {row.id: refused}))
    return 1


def _oldest(tx: WriteTransaction, row: Intake) -> Sequence[Intake]:
    """The row, if it is the oldest one; otherwise another process has it or has submitted it."""
    return [each for each in tx.intake(1) if each.id == row.id]


def _take(core: Core, tx: WriteTransaction, rows: Sequence[Intake]) -> int:
    """Submit rows that the transaction has locked; returns their number."""
    asks: list[CommandRequest] = []
    asked: list[int] = []
    refused: dict[int, DetentError] = {}
    context = core.submission_context(CALLER)
    for row in rows:
        try:
            asks += _asks(core, context, row)
            asked.append(row.id)
        except DetentError as error:
            refused[row.id] = error
    results = batch.run(tx, asks, core.engine.lifetimes) if asks else []
    for number, result in zip(asked, results, strict=True):
        if not isinstance(result, CommandResult):
            refused[number] = result
    _end(tx, [number for number in asked if number not in refused], refused)
    return len(rows)


def _end(tx: WriteTransaction, taken: Sequence[int], refused: Mapping[int, DetentError]) -> None:
    for number, refusal in refused.items():
        log.warning("row %s of intake was refused: %s", number, refusal)
    tx.end_intake(taken, {number: problem(each) for number, each in refused.items()})


def _asks(core: Core, context: Context, row: Intake) -> Sequence[CommandRequest]:
    """The engine request of a row."""
    operation = OPERATIONS.get(row.operation)
    if row.operation not in ALLOWED or operation is None or operation.prepare is None:
        raise Invalid(
            f"operation must be one of {', '.join(ALLOWED)}, not {row.operation!r}.",
            field="operation",
            given=row.operation,
            allowed=ALLOWED,
        )
    arguments = _body(row)
    if row.idempotency_key is not None:
        arguments["idempotency_key"] = row.idempotency_key
    return operation.prepare(core, CALLER, context, **arguments).requests


def _body(row: Intake) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(row.body)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"body is not JSON: {error}.", field="body") from None
    if not isinstance(body, dict):
        raise Invalid(f"body must be a JSON object, not {body!r:.80}.", field="body", given=body)
    return body
