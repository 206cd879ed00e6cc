"""Deliberately broken variants for guarantees that no other layer breaks, each with its check.

A mutant without a check is caught by a test that `tests/docs/test_promise_mutants.py` names.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import patch

import apsw

from detent.allowed_hosts import AllowedHost, allowed_hosts, name_refusal
from detent.engine import Claimed, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import Broken, Misconfigured, NotFound, TooLarge
from detent.gateway import strict_json
from detent.kernel import events as e
from detent.kernel.decide import review
from detent.kernel.draft import Draft
from detent.kernel.entities import Job
from detent.kernel.events import EVENTS, Event
from detent.kernel.transitions import claim_end
from detent.operations import cursor_pages
from detent.operations.registry import Caller
from detent.settings import Settings
from detent.store import codec
from detent.store.blobs import Blob
from detent.store.s3 import bucket_blobs
from detent.store.s3.bucket_blobs import BucketBlobs
from detent.store.sqlite import SqliteStore, checks
from detent.worker import run_outcome
from verification.mutant import Mutant, Patches

# ---- mutants ---------------------------------------------------------------------------------


def limits_of_bodies_are_not_checked() -> Patches:
    """A body is accepted however long its texts are and however deep it is."""
    yield patch.object(strict_json, "_walk", lambda *_: None)


def any_sqlite_is_used() -> Patches:
    """A version of SQLite that may lose commits is used."""
    yield patch.object(checks, "check_version", lambda _: None)


def verdict_ignores_the_diff() -> Patches:
    """A verdict is accepted although the task has new results since its diff was reviewed."""

    def same(_draft: Any, _task: Any, reviewed: Any) -> str | None:
        return None if reviewed is None else str(reviewed.sha256)

    yield patch.object(review, "same_diff", same)


def every_host_is_allowed() -> Patches:
    """The proxy of the sandbox does not compare the name of a host."""
    yield patch.object(AllowedHost, "covers_name", lambda *_: True)


def projects_are_not_compared() -> Patches:
    """A token of one project may name another project in a filter."""

    def of_project(_: Caller, where: dict[str, Any], project: str | None) -> dict[str, Any]:
        return where if project is None else {**where, "project": project}

    yield patch.object(cursor_pages, "of_project", of_project)


def handed_back_work_is_a_new_attempt() -> Patches:
    """A job that a stopping worker hands back has used an attempt."""

    def requeue(draft: Draft, job: Job) -> None:
        draft.emit(job.id, e.JobRequeued("released"))

    yield patch.object(claim_end, "hand_back", requeue)


def later_fields_are_required() -> Patches:
    """An event is refused if it lacks a field that a later version has added."""
    read_event = codec.read_event

    def strict(name: str, schema: int, data: str) -> Event:
        kind = EVENTS.get(name)
        expected = set[str]() if kind is None else set(kind.__slots__)
        if missing := expected - set(json.loads(data)):
            raise Broken(f"The event {name} has no field {min(missing)}.")
        return read_event(name, schema, data)

    yield patch.object(codec, "read_event", strict)


def claims_need_a_notification() -> Patches:
    """After a claim that found no job, the next one waits for a notification."""
    claim, found_none = Engine.claim, dict[int, int]()

    def notified_claim(engine: Engine, request: ClaimRequest) -> list[Claimed]:
        noticed = engine.store.noticed()
        if found_none.get(id(engine)) == noticed:
            return []
        claimed = claim(engine, request)
        if not claimed:
            found_none[id(engine)] = noticed
        return claimed

    yield patch.object(Engine, "claim", notified_claim)


def blob_has_one_key() -> Patches:
    """A blob that is stored again replaces its object, which retention may be deleting."""

    def put(self: BucketBlobs, file: BinaryIO) -> Blob:
        data = file.read()
        blob = Blob(sha256(data).hexdigest(), len(data))
        self._bucket.put(f"{bucket_blobs.BLOBS}{blob.sha256}/{0:016d}-0", BytesIO(data))
        return blob

    yield patch.object(BucketBlobs, "put", put)


def errors_of_the_decoder_pass_through() -> Patches:
    """A body that cannot be decoded raises an error of the decoder instead of a refusal."""

    def decode(body: bytes, _: strict_json.Limits) -> Any:
        return strict_json.DECODER.decode(body.decode("utf-8"))

    yield patch.object(strict_json, "decode", decode)


def failure_text_is_not_made_storable() -> Patches:
    """The report of a failure has the text of the exception, which the store may refuse."""
    yield patch.object(run_outcome, "storable_text", lambda text: text)


# ---- checks ----------------------------------------------------------------------------------


def refuses(expected: type[Exception], action: Callable[[], object]) -> None:
    try:
        action()
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


def long_texts_are_refused() -> None:
    limits = strict_json.Limits.of(Settings())
    for body in (b'"' + b"x" * (limits.text + 1) + b'"', b"[" * 65 + b"]" * 65):
        refuses(TooLarge, lambda body=body: strict_json.decode(body, limits))  # type: ignore[misc]


def an_old_sqlite_is_refused() -> None:
    with (
        tempfile.TemporaryDirectory() as made,
        patch.object(apsw, "sqlite_lib_version", lambda: "3.51.2"),
    ):
        refuses(Misconfigured, lambda: SqliteStore(Path(made) / "detent.db").close())


def other_hosts_are_refused() -> None:
    allowed = allowed_hosts(["api.example.com"], "hosts")
    assert name_refusal("api.example.com", 443, allowed) is None
    assert name_refusal("evil.example", 443, allowed) is not None


def other_projects_are_hidden() -> None:
    ours = Caller("ann", project="ours")
    refuses(NotFound, lambda: cursor_pages.of_project(ours, {}, "theirs"))
    assert cursor_pages.of_project(ours, {}, None) == {"project": "ours"}


MUTANTS: Mapping[str, Mutant] = {
    each.patches.__name__.replace("_", "-"): each
    for each in (
        Mutant(limits_of_bodies_are_not_checked, long_texts_are_refused),
        Mutant(any_sqlite_is_used, an_old_sqlite_is_refused),
        Mutant(verdict_ignores_the_diff),
        Mutant(every_host_is_allowed, other_hosts_are_refused),
        Mutant(projects_are_not_compared, other_projects_are_hidden),
        Mutant(handed_back_work_is_a_new_attempt),
        Mutant(later_fields_are_required),
        Mutant(claims_need_a_notification),
        Mutant(blob_has_one_key),
        Mutant(errors_of_the_decoder_pass_through),
        Mutant(failure_text_is_not_made_storable),
    )
}
