"""Executes submissions like earlier ones, without a new decision of the kernel.

A submission is plain if it has a generated id, and no parent, dependency, delay, budget, key or
trace context. Its signature has all its fields but the id, the title and the payload. `job_forms`
derives from the kernel what is written for every submission of a signature.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from detent import failpoints
from detent.engine.job_forms import MAX_FORMS, Signature, Submitted, SubmittedTask, form_of
from detent.engine.types import CommandRequest, CommandResult
from detent.kernel import commands as c
from detent.kernel.traceparent import TRACEPARENT
from detent.store.codec import NOT_JSON, encode
from detent.store.event_template import MARK
from detent.store.job_sets import JobSet, JobSets, Member
from detent.task_lifecycles import SHIPPED

#: The maximum number of submissions that are executed here. Larger batches are divided into sets.
MAX_SUBMISSIONS = 3
#: PostgreSQL cannot read this character inside JSON, so values with it are not in sets.
NULL = "\\u0000"
#: Ids and nonces that are the same text inside JSON.
SIMPLE = re.compile(r"[A-Za-z0-9_.:-]+")
#: What ids are joined with to match all of them together.
SEPARATOR = "."


class PlainSubmissions:
    """Executes batches of a few equal submissions, if an earlier one was equal too."""

    def __init__(self) -> None:
        #: The signatures of earlier ones. A form is not derived for a single use.
        self._used: set[Signature] = set()

    def execute(
        self, sets: JobSets, requests: Sequence[CommandRequest]
    ) -> Sequence[CommandResult] | None:
        """Write the submissions; None if they are not equal or not like an earlier one."""
        if not 0 < len(requests) <= MAX_SUBMISSIONS:
            return None
        members, signatures = [], set()
        for request in requests:
            found = plain_submission(request)
            if found is None:
                return None
            signatures.add(found[0])
            members.append(found[1])
        ids = {member.id for member in members}
        if len(signatures) > 1 or len(ids) < len(members) or not is_simple(ids):
            return None
        (signature,) = signatures
        jobs = _written(signature) if self._was_used(signature) else None
        if jobs is None:
            return None
        if failpoints.armed:
            failpoints.hit("save.before")
        sets.insert(jobs, members)
        return [CommandResult(member.id) for member in members]

    def _was_used(self, signature: Signature) -> bool:
        if signature in self._used:
            return True
        if len(self._used) >= MAX_FORMS:
            self._used.clear()
        self._used.add(signature)
        return False


@lru_cache(MAX_FORMS)
def _written(signature: Signature) -> JobSet | None:
    """What is written for the submissions of a signature; None if they are not all alike."""
    form = form_of(signature)
    return None if form is None else form.written()


def is_simple(texts: Iterable[str]) -> bool:
    """Whether ids or nonces are the same text inside JSON."""
    return SIMPLE.fullmatch(SEPARATOR.join(texts)) is not None


# ---- signatures --------------------------------------------------------------------------------


def plain_submission(request: CommandRequest) -> tuple[Signature, Member] | None:
    """The signature of a plain submission, and what differs; None for any other command."""
    command: Any
    command, actor, key, fresh, grant = request
    kind = type(command)
    if (
        (kind is not c.SubmitJob and kind is not c.SubmitTask)
        or not fresh
        or key is not None
        or grant is not None
        or actor.root_id is not None
        or command.not_before
        or command.delay
        or TRACEPARENT in command.options  # no other submission is equal
    ):
        return None
    try:
        return _job(command, actor) if kind is c.SubmitJob else _task(command, actor)
    except NOT_JSON:  # the general path refuses it
        return None


def _job(command: c.SubmitJob, actor: c.Actor) -> tuple[Signature, Member] | None:
    if command.parent_job_id is not None:
        return None
    options = encode(command.options).decode() if command.options else "{}"
    where = (actor.name, command.project, command.intent, command.priority)
    payload = encode(command.payload).decode()
    if NULL in payload:
        return None
    member = tuple.__new__(Member, (command.job_id, payload, ""))
    return Submitted(*where, command.concurrency_key, options), member


def _task(command: c.SubmitTask, actor: c.Actor) -> tuple[Signature, Member] | None:
    if (
        not command.queue
        or command.lifecycle not in SHIPPED
        or command.parent_id is not None
        or command.depends_on
        or command.budget is not None
        or MARK in command.title
    ):
        return None
    options = encode(command.options).decode() if command.options else "{}"
    where = (actor.name, command.project, command.lifecycle, command.intent, command.source)
    encode(command.title)
    payload = encode(command.payload).decode()
    if NULL in payload or "\0" in command.title:
        return None
    member = Member(command.task_id, payload, command.title)
    return SubmittedTask(*where, command.priority, tuple(command.tags), options), member
