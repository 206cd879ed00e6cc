"""Forms of decisions about plain work, so that the kernel decides once for many equal commands.

A form is derived from two probes: the kernel decides about a job with a marked id and marked
values, twice, with other times, and with another intent, priority and concurrency key where these
are not part of the signature. What differs between the two decisions only in its time is written
with the time of the batch. If anything else differs, or if more would be written than a form can
express, there is no form, and the kernel decides each command. The rules stay in the kernel; a
property test compares both ways.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from detent.engine.changeset import ChangeSet
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.entities import Job, Run, Task
from detent.kernel.world import RUNS, World
from detent.store.codec import event_rows, from_json
from detent.store.commit_body import template
from detent.store.event_template import ID, MARK, SECOND, VALUE
from detent.store.job_sets import At, JobSet
from detent.store.types import Changes
from detent.task_lifecycles import SHIPPED

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


class SubmittedTask(NamedTuple):
    """The signature of the submission of a plain task that is queued; options are JSON text."""

    actor: str
    project: str
    lifecycle: str
    intent: str
    source: str
    priority: str
    tags: tuple[str, ...]
    options: str


class ToClaim(NamedTuple):
    """The signature of the claim of a plain job. `plain`: see `Candidate`."""

    worker: str
    project: str
    plain: str


class Completed(NamedTuple):
    """The signature of the completion of a plain job's only run."""

    actor: str
    project: str
    plain: str
    exit_code: int | None
    decision: str | None
    #: The number of checkpoints that the run has recorded.
    steps: int = 0


class Recorded(NamedTuple):
    """The signature of a checkpoint of a plain job's only run; see `checkpoint_forms`."""

    actor: str
    project: str
    plain: str
    step: str | None


class Form(NamedTuple):
    """What the kernel decides about every command of one signature.

    Times are offsets from the time of the decision.
    """

    task: "Fields"
    job: "Fields"
    run: "Fields"
    task_versions: tuple[int, int]
    job_versions: tuple[int, int]
    template: str
    #: Whether the task ends with its job.
    task_ends: bool
    #: The job and the task after the decision. Fields that are not changed may differ.
    example: Job
    example_task: Task | None
    answer: Any

    def written(self, nonce: str = "") -> JobSet:
        """What is written for each job, for a claim with this nonce."""
        task, job, run = (each.written(nonce) for each in (self.task, self.job, self.run))
        versions = (self.task_versions, self.job_versions)
        events = sum(after - before for before, after in versions)
        template = self.template.replace(NONCE, nonce)
        return JobSet(task, job, run, *versions, template, self.suffix, events, self.task_ends)

    @property
    def suffix(self) -> str:
        """What the id of the job has after that of its task; nothing without a task."""
        return self.example.id.removeprefix(ID)


class Fields(NamedTuple):
    """The fields of an entity that change: values, and times as offsets."""

    values: dict[str, Any]
    times: Mapping[str, int]

    def written(self, nonce: str) -> dict[str, Any]:
        found = {name: nonce if value == NONCE else value for name, value in self.values.items()}
        found.update((name, At(offset)) for name, offset in self.times.items())
        return found


Signature = Submitted | SubmittedTask | ToClaim | Completed


@lru_cache(MAX_FORMS)
def form_of(signature: Signature) -> Form | None:
    """The form of the decisions of a signature; None if there is none."""
    if not is_markable(signature):
        return None
    try:
        return _compared(probe(signature, 0), probe(signature, 1))
    except (NoForm, DetentError):
        return None


def is_markable(signature: Signature | Recorded) -> bool:
    """Whether marks differ from everything in the signature."""
    text = repr(signature)
    return not (MARK in text or "ue000" in text or "u0000" in text)


class NoForm(Exception):
    """The decisions of the two probes differ in more than times."""


# ---- probes ------------------------------------------------------------------------------------

#: By probe: the times of submission, claim and completion, and what no signature has.
TIMES = ((10**15, 10**15 + 10**6, 10**15 + 10**7), (3 * 10**15, 4 * 10**15, 5 * 10**15))
INTENTS, PRIORITIES, KEYS = ("one", "other"), ("P0", "P3"), (None, "key")
PEOPLE, WORKERS = ("ann", "bob"), ("first", "second")
SOURCES, TAGS = ("cli", "api"), ((), ("tag",))
#: The numbers of checkpoints before one whose form is derived.
EARLIER = (0, 3)


class Probe(NamedTuple):
    """A decision: its time, the entities before it, what is written, and the answer."""

    now: int
    task: Task | None
    job: Job | None
    run: Run | None
    changes: Changes
    answer: Any


def probe(signature: Signature | Recorded, number: int) -> Probe:
    """Decide about the signature after everything that comes before it."""
    world = World(lifecycles=SHIPPED)
    submitted, claimed, completed = TIMES[number]
    if isinstance(signature, Submitted):
        actor, project, intent, priority, key, text = signature
        job = c.SubmitJob(
            *(ID, project, intent, priority, VALUE, None, key), options=from_json(text)
        )
        return _decided(world, job, submitted, c.Actor(actor))
    if isinstance(signature, SubmittedTask):
        actor, project, lifecycle, intent, source, priority, tags, text = signature
        task = c.SubmitTask(
            *(ID, project, lifecycle, intent, source, priority, SECOND, VALUE, tags),
            options=from_json(text),
            queue=True,
        )
        return _decided(world, task, submitted, c.Actor(actor))
    own_options = _submit_any(world, signature, number)
    job_id = next(iter(world.jobs))
    if world.jobs[job_id].options != own_options:
        raise NoForm
    worker = signature.worker if isinstance(signature, ToClaim) else WORKERS[number]
    claim = c.ClaimJob(job_id, worker, NONCE)
    decided = _decided(world, claim, claimed, c.Actor(f"worker:{worker}"))
    if isinstance(signature, ToClaim):
        return decided
    grant, (run,) = decided.answer, decided.changes.new_runs
    steps = EARLIER[number] if isinstance(signature, Recorded) else signature.steps
    for step in range(steps):
        earlier = c.RecordCheckpoint(grant, f"{INTENTS[number]} {step}", number)
        _decided(world, earlier, claimed + step + 1, c.Actor(PEOPLE[number]))
    reporter = c.Actor(signature.actor)
    if isinstance(signature, Recorded):
        recorded = c.RecordCheckpoint(grant, SECOND, VALUE, signature.step)
        return _decided(world, recorded, completed, reporter)
    end = c.CompleteRun(
        grant, run.id, VALUE, exit_code=signature.exit_code, decision=signature.decision
    )
    return _decided(world, end, completed, reporter)


def _submit_any(world: World, signature: ToClaim | Completed | Recorded, number: int) -> Any:
    """Submit work that differs in what is not in the signature; returns the options of its job."""
    now, project, plain = TIMES[number][0], signature.project, from_json(signature.plain)
    intent, priority, key = INTENTS[number], PRIORITIES[number], KEYS[number]
    actor = c.Actor(PEOPLE[number])
    if isinstance(plain, dict):
        job = c.SubmitJob(ID, project, intent, priority, VALUE, concurrency_key=key, options=plain)
        _decided(world, job, now, actor)
        return plain
    lifecycle, options, own_options = plain
    if lifecycle not in SHIPPED:
        raise NoForm
    task = c.SubmitTask(
        *(ID, project, lifecycle, intent, SOURCES[number], priority, SECOND, VALUE, TAGS[number]),
        options=options,
    )
    _decided(world, task, now, actor)
    _decided(world, c.QueueTask(ID), now + 1_000 * (number + 1), actor)
    return own_options


def _decided(world: World, command: Any, now: int, actor: c.Actor) -> Probe:
    task, job = world.tasks.get(ID), next(iter(world.jobs.values()), None)
    run = None if job is None or job.run_id is None else world.part(RUNS, job.id, job.run_id)
    changes = ChangeSet(world, 0, now)
    draft = decide(world, command, now, actor)
    changes.add(draft)
    return Probe(now, task, job, run, changes.rows(), draft.answer)


# ---- comparison --------------------------------------------------------------------------------

#: What may be written for a new job, for a claim, and for an end; everything else must be empty.
WRITTEN = (
    {"entries", "versions", "new_jobs", "queue"},
    {"entries", "versions", "jobs", "new_runs", "leases"},
    {"entries", "versions", "jobs", "runs", "ended", "unqueued"},
)


def _compared(first: Probe, second: Probe) -> Form:
    after, other = _Written.of(first), _Written.of(second)
    if (after.template, after.versions, after.task_ends, after.columns, first.answer) != (
        *(other.template, other.versions, other.task_ends, other.columns),
        second.answer,
    ):
        raise NoForm
    task = _fields(first, second, (first.task, second.task), (after.task, other.task))
    job = _fields(first, second, (first.job, second.job), (after.job, other.job))
    run = _fields(first, second, (first.run, second.run), (after.run, other.run))
    task.values.update(after.columns["task"])
    job.values.update(after.columns["job"])
    examples = (after.job, after.task)
    events = (*after.versions, after.template, after.task_ends)
    return Form(task, job, run, *events, *examples, first.answer)


class _Written(NamedTuple):
    """What is written for one decision."""

    task: Task | None
    job: Job
    run: Run | None
    versions: tuple[tuple[int, int], tuple[int, int]]
    template: str
    task_ends: bool
    #: Columns that are not fields of an entity.
    columns: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, probe: Probe) -> "_Written":
        changes = probe.changes
        written = {name for name, rows in zip(Changes._fields, changes, strict=True) if rows}
        if written - {"tasks", "new_tasks"} not in WRITTEN:
            raise NoForm
        job = _only([*changes.jobs, *(new.job for new in changes.new_jobs)])
        tasks = [*changes.tasks, *(new.task for new in changes.new_tasks)]
        task = _only(tasks) if job.task_id is not None else None
        if changes.ended and job.id not in changes.ended:
            raise NoForm
        runs = [*changes.runs, *changes.new_runs]
        return cls(
            task,
            job,
            _only(runs) if runs else None,
            (_versions(changes, ID if job.task_id else ""), _versions(changes, job.id)),
            _template(probe),
            task is not None and task.id in changes.ended,
            _further_columns(probe),
        )


def _versions(changes: Changes, stream: str) -> tuple[int, int]:
    """The versions of a stream before and after."""
    own = [entry.version for entry in changes.entries if entry.stream == stream]
    return (own[0] - 1, own[-1]) if own else (0, 0)


def _further_columns(probe: Probe) -> Mapping[str, Mapping[str, Any]]:
    """The columns of new rows that are not fields of an entity."""
    task: dict[str, Any] = {}
    job: dict[str, Any] = {}
    for new_task in probe.changes.new_tasks:
        task = {"title": new_task.title, "payload": new_task.payload, "tags": new_task.tags}
    for new_job in probe.changes.new_jobs:
        job["payload"] = new_job.payload
    for row in probe.changes.queue:
        if row.due_at > probe.now:
            raise NoForm
        job |= {"lane": row.lane, "due_at": row.due_at}
    return {"task": task, "job": job}


def _only(found: list[Any]) -> Any:
    if len(found) != 1:
        raise NoForm
    return found[0]


def _template(probe: Probe) -> str:
    """The text of the template of a probe's events."""
    groups = []
    rows = event_rows(probe.changes.entries)
    for stream, some in groupby(rows, itemgetter(0)):
        own = list(some)
        if not stream.startswith(ID) or any(row[6] != probe.now for row in own):
            raise NoForm
        entries = [
            [name, schema, subject, actor, data]
            for *_, name, schema, subject, _, actor, data in own
        ]
        if any(entry[4].count(VALUE) > 1 for entry in entries):
            raise NoForm
        groups.append([stream, own[0][1], own[0][2], entries])
    return template(groups)


def _fields(first: Probe, second: Probe, before: tuple[Any, Any], after: tuple[Any, Any]) -> Fields:
    """The fields that a decision changes, or all if there was nothing before, and the times."""
    values: dict[str, Any] = {}
    times: dict[str, int] = {}
    for name in () if after[0] is None else after[0]._fields:
        one, other = (getattr(each, name) for each in after)
        if before[0] is not None and (one, other) == tuple(getattr(each, name) for each in before):
            continue
        if one == other:
            values[name] = one
        elif type(one) is type(other) is int and one - first.now == other - second.now:
            times[name] = one - first.now
        else:
            raise NoForm
    return Fields(values, times)
