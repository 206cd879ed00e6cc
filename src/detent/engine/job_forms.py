"""Forms of decisions about plain jobs, so that the kernel decides once for many equal commands.

A form is derived from two probes: the kernel decides about a job with a marked id and marked
values, twice, with other times, and with another intent, priority and concurrency key where these
are not part of the signature. What differs between the two decisions only in its time is written
with the time of the batch. If anything else differs, or if more would be written than a form can
express, there is no form, and the kernel decides each command. The rules stay in the kernel; a
property test compares both ways.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from detent.engine.changeset import ChangeSet
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.entities import Job, Run
from detent.kernel.world import RUNS, World
from detent.store.codec import event_rows, from_json
from detent.store.commit_body import ID, MARK, VALUE, template
from detent.store.job_sets import CLAIMED, CREATED, JobSet
from detent.store.types import Changes

#: How many forms are kept. They are few: one for each intent, worker, actor, project.
MAX_FORMS = 1_000
#: The mark for the nonce of a claim, which differs between claims.
NONCE = f"{MARK}n"


class Submitted(NamedTuple):
    """The signature of the submission of a plain job; options are JSON text."""

    actor: str
    project: str
    intent: str
    priority: str
    concurrency_key: str | None
    options: str


class ToClaim(NamedTuple):
    """The signature of the claim of a plain job."""

    worker: str
    project: str
    options: str


class Completed(NamedTuple):
    """The signature of the completion of a plain job's only run."""

    actor: str
    project: str
    options: str
    exit_code: int | None
    decision: str | None


class Form(NamedTuple):
    """What the kernel decides about every command of one signature.

    Times are offsets from the time of the decision.
    """

    job: Mapping[str, Any]
    job_times: Mapping[str, int]
    run: Mapping[str, Any]
    run_times: Mapping[str, int]
    before: int
    version: int
    template: str
    #: The job after the decision. Fields that are not changed may differ between jobs.
    example: Job
    answer: Any

    def at(self, now: int, nonce: str = "") -> JobSet:
        """What is written at a time, for a claim with this nonce."""
        job = {name: nonce if value == NONCE else value for name, value in self.job.items()}
        job.update((name, now + offset) for name, offset in self.job_times.items())
        run = {**self.run, **{name: now + offset for name, offset in self.run_times.items()}}
        text = self.template.replace(NONCE, nonce)
        return JobSet(job, run, self.before, self.version, text)


@lru_cache(MAX_FORMS)
def form_of(signature: Submitted | ToClaim | Completed) -> Form | None:
    """The form of the decisions of a signature; None if there is none."""
    if MARK in repr(signature) or "\\ue000" in repr(signature):
        return None
    try:
        return _compared(_probe(signature, 0), _probe(signature, 1))
    except (_NoForm, DetentError):
        return None


class _NoForm(Exception):
    """The decisions of the two probes differ in more than times."""


# ---- probes ------------------------------------------------------------------------------------

#: By probe: the times of submission, claim and completion, and what no signature has.
TIMES = ((10**15, 10**15 + 10**6, 10**15 + 10**7), (3 * 10**15, 4 * 10**15, 5 * 10**15))
INTENTS, PRIORITIES, KEYS = ("one", "other"), ("P0", "P3"), (None, "key")
PEOPLE, WORKERS = ("ann", "bob"), ("first", "second")


class _Probe(NamedTuple):
    """A decision: its time, the job and the run before it, what is written, and the answer."""

    now: int
    job: Job | None
    run: Run | None
    changes: Changes
    answer: Any


def _probe(signature: Submitted | ToClaim | Completed, number: int) -> _Probe:
    world = World()
    submitted, claimed, completed = TIMES[number]
    actor = c.Actor(PEOPLE[number])
    options = from_json(signature.options)
    if isinstance(signature, Submitted):
        _, _, intent, priority, key, _ = signature
        actor = c.Actor(signature.actor)
    else:
        intent, priority, key = INTENTS[number], PRIORITIES[number], KEYS[number]
    command = c.SubmitJob(
        ID, signature.project, intent, priority, VALUE, concurrency_key=key, options=options
    )
    probe = _decided(world, command, submitted, actor)
    if isinstance(signature, Submitted):
        return probe
    worker = signature.worker if isinstance(signature, ToClaim) else WORKERS[number]
    probe = _decided(world, c.ClaimJob(ID, worker, NONCE), claimed, c.Actor(f"worker:{worker}"))
    if isinstance(signature, ToClaim):
        return probe
    (run,) = probe.changes.new_runs
    end = c.CompleteRun(
        probe.answer, run.id, VALUE, exit_code=signature.exit_code, decision=signature.decision
    )
    return _decided(world, end, completed, c.Actor(signature.actor))


def _decided(world: World, command: Any, now: int, actor: c.Actor) -> _Probe:
    job = world.jobs.get(ID)
    run = None if job is None or job.run_id is None else world.part(RUNS, ID, job.run_id)
    changes = ChangeSet(world, 0, now)
    draft = decide(world, command, now, actor)
    changes.add(draft)
    return _Probe(now, job, run, changes.rows(), draft.answer)


# ---- comparison --------------------------------------------------------------------------------

#: What may be written for a new job, for a claim, and for an end; everything else must be empty.
WRITTEN = (
    {"entries", "versions", "new_jobs", "queue"},
    {"entries", "versions", "jobs", "new_runs", "leases"},
    {"entries", "versions", "jobs", "runs", "ended", "unqueued"},
)


def _compared(first: _Probe, second: _Probe) -> Form:
    jobs, runs, texts, versions = [], [], [], []
    for probe in (first, second):
        written = {name for name, rows in zip(Changes._fields, probe.changes, strict=True) if rows}
        if written not in WRITTEN:
            raise _NoForm
        jobs.append(_only([*probe.changes.jobs, *(new.job for new in probe.changes.new_jobs)]))
        runs.append(_only([*probe.changes.runs, *probe.changes.new_runs, None][:1]))
        texts.append(_template(probe))
        versions.append((probe.changes.entries[0].version - 1, probe.changes.versions[ID]))
    if texts[0] != texts[1] or versions[0] != versions[1] or first.answer != second.answer:
        raise _NoForm
    if not first.changes.new_jobs and versions[0] not in ((CREATED, CLAIMED), (CLAIMED, 6)):
        raise _NoForm
    job, job_times = _fields(first, second, (first.job, second.job), jobs)
    run, run_times = _fields(first, second, (first.run, second.run), runs)
    for one, other in zip(first.changes.queue, second.changes.queue, strict=True):
        if (one.lane, one.due_at) != (other.lane, other.due_at) or one.due_at > first.now:
            raise _NoForm
        job |= {"lane": one.lane, "due_at": one.due_at}
    return Form(job, job_times, run, run_times, *versions[0], texts[0], jobs[0], first.answer)


def _only(found: list[Any]) -> Any:
    if len(found) != 1:
        raise _NoForm
    return found[0]


def _template(probe: _Probe) -> str:
    """The text of the template of a probe's events."""
    entries = []
    rows = event_rows(probe.changes.entries)
    for stream, _, _, name, schema, subject, at, actor, data in rows:
        if stream != ID or at != probe.now:
            raise _NoForm
        entries.append([name, schema, subject, actor, data])
    return template([[ID, rows[0][1], rows[0][2], entries]])


def _fields(
    first: _Probe, second: _Probe, before: tuple[Any, Any], after: list[Any]
) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields that a decision changes, or all if there was nothing before, and the times."""
    values: dict[str, Any] = {}
    times: dict[str, int] = {}
    if after[0] is None:
        return values, times
    for name in after[0]._fields:
        one, other = getattr(after[0], name), getattr(after[1], name)
        if before[0] is not None and (one, other) == tuple(getattr(each, name) for each in before):
            continue
        if one == other:
            values[name] = one
        elif type(one) is type(other) is int and one - first.now == other - second.now:
            times[name] = one - first.now
        else:
            raise _NoForm
    return values, times
