"""Checks payloads against the arguments of an intent's handler.

A worker registers the arguments of each of its handlers as a JSON Schema. The row of an intent has
the schema that was registered last, and by digest every schema that a live worker uses.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from detent.errors import Invalid
from detent.kernel.plan import PlanStep, validate
from detent.store.port import ReadTransaction
from detent.submission.context import Context
from detent.submission.request import missing_fields
from detent.submission.schema import Checker, Flaw, Schema

#: In the row of an intent: the schema that was registered last, and all schemas by digest.
ARGUMENTS, VERSIONS = "arguments", "argument_versions"


def check_payload(
    context: Context,
    intent: str,
    row: Mapping[str, Any],
    payload: Any,
    where: str = "payload",
    later: Collection[str] = (),
) -> None:
    """Refuse a payload that no live version of the intent's handler accepts.

    The row of the intent must have `ARGUMENTS`; an intent without them accepts every payload. The
    fields `later` are added before the handler is called, so they may be missing.
    """
    flaw = _flaw(row[ARGUMENTS], payload, where, later)
    if flaw is not None and not _fits_another(context, intent, payload, later):
        raise _refusal(flaw, intent)


def check_step_inputs(context: Context, plan: Mapping[str, Any], payload: Any) -> None:
    """Refuse a plan with a step whose input the handler of the step's intent does not accept."""
    for index, step in enumerate(validate(plan).steps):
        row = context.intents.get(step.intent, {})
        if ARGUMENTS in row:
            where = f"options.plan.steps[{index}].input"
            given = step_payload(step, payload)
            own = step.input if isinstance(step.input, Mapping) else {}
            later = [name for name in step.needs if name not in own]
            check_payload(context, step.intent, row, given, where, later)


def step_payload(step: PlanStep, payload: Any, results: Mapping[str, Any] | None = None) -> Any:
    """The payload of a step: the job's payload, the results of earlier steps, and its own input.

    If one of them has the same field, the later one wins.
    """
    if step.input is not None and not isinstance(step.input, Mapping):
        return step.input
    if not results and not step.input:
        return payload
    whole = payload if isinstance(payload, Mapping) else {}
    return {**whole, **(results or {}), **(step.input or {})}


def _flaw(schema: Schema, payload: Any, where: str, later: Collection[str]) -> Flaw | None:
    if not later:
        return Checker().flaw(schema, payload, where)
    if "properties" not in schema or not isinstance(payload, Mapping):
        return None
    required = [name for name in schema.get("required", ()) if name not in later]
    known = {name: value for name, value in payload.items() if name not in later}
    return Checker().flaw({**schema, "required": required}, known, where)


def _fits_another(context: Context, intent: str, payload: Any, later: Collection[str] = ()) -> bool:
    """Whether a live worker runs a version of the handler that accepts this payload."""
    with context.store.read() as view:
        known = view.rows("intents").get(intent, {}).get(VERSIONS, {})
        used = set(live_versions(view, intent, context.settings.worker_lease_ms))
    schemas = [known.get(each) for each in used]
    return any(each is None or _flaw(each, payload, "payload", later) is None for each in schemas)


def live_versions(
    view: ReadTransaction, intent: str, lease_ms: int, but: str | None = None
) -> Iterator[str | None]:
    """The digests of the schemas of an intent that live workers use; None accepts everything."""
    since = view.now() - 2 * lease_ms * 1_000
    for name, row in view.rows("workers").items():
        if name != but and row.get("seen_at", 0) >= since and intent in row.get("intents", ()):
            yield row.get(ARGUMENTS, {}).get(intent)


def registered(
    row: Mapping[str, Any], old: Mapping[str, Any], in_use: Collection[str | None]
) -> dict[str, Any]:
    """The row of an intent to store: with its own schema and those that other workers still use."""
    kept = {digest: schema for digest, schema in old.get(VERSIONS, {}).items() if digest in in_use}
    if ARGUMENTS in row:
        kept[digest_of(row[ARGUMENTS])] = row[ARGUMENTS]
    return {**row, VERSIONS: kept} if kept else dict(row)


def withdrawn(row: Mapping[str, Any], in_use: Collection[str | None]) -> Mapping[str, Any]:
    """The row of an intent after a worker has stopped: with the schemas that other workers use.

    Without another worker the last schemas are kept: work may be submitted before one starts.
    """
    if not in_use:
        return row
    known = row.get(VERSIONS, {})
    kept = {digest: known[digest] for digest in in_use if digest in known}
    last = row.get(ARGUMENTS)
    plain = {name: value for name, value in row.items() if name not in (ARGUMENTS, VERSIONS)}
    if None in in_use or not kept:
        return {**plain, **({VERSIONS: kept} if kept else {})}
    newest = last if last is not None and digest_of(last) in kept else next(iter(kept.values()))
    return {**plain, ARGUMENTS: newest, VERSIONS: kept}


def digest_of(schema: Schema) -> str:
    """The digest that identifies a schema."""
    return hashlib.sha256(msgspec.json.encode(schema, order="deterministic")).hexdigest()[:16]


def _refusal(flaw: Flaw, intent: str) -> Invalid:
    if flaw.missing:
        return missing_fields(list(flaw.missing), f"the handler of {intent} requires")
    shown = repr(flaw.given)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return Invalid(
        f"{flaw.where} must be {flaw.allowed}, not {shown}.",
        field=flaw.where,
        given=flaw.given,
        allowed=(flaw.allowed,),
        hint=f"Correct the payload: it must match the arguments of the handler of {intent}.",
    )
