"""Compares the rows with the log: folds the log and reports every difference as data.

Reads through the store's port and changes nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from detent.errors import DetentError
from detent.kernel import events as e
from detent.kernel import invariants
from detent.kernel.entities import Job, Task
from detent.kernel.lane import lane_of
from detent.kernel.lifecycle_document import read as read_document
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.task_lifecycle import TaskLifecycles
from detent.kernel.world import CHECKPOINTS, RUNS, SIGNALS, STEPS, WAITS, World
from detent.store.codec import read_record
from detent.store.log_walk import BATCH, all_committed
from detent.store.port import LogReader, ReadTransaction, WriteTransaction
from detent.store.table_names import LISTED, TOMBSTONES, TRIMMED
from detent.store.types import LoggedEvent, Query, QueueRow
from detent.task_lifecycles import SHIPPED

#: Later than anything that can be due.
FAR = 1 << 62

Columns = Mapping[str, Any]
#: A table: the stream and what identifies the row within it, to the row's columns.
Rows = dict[tuple[Any, ...], Columns]
#: The column of the job or run of a row, where the row has a name within it.
STREAM_COLUMNS = {
    "runs": "job_id",
    "waits": "job_id",
    "checkpoints": "job_id",
    "evidence": "run_id",
}
NO_ROWS: Mapping[str, Rows] = {}


class Difference(NamedTuple):
    """A difference between rows and log, with the position of the (last) event of the stream."""

    stream: str
    position: int
    what: str
    field: str
    log: Any
    row: Any


@dataclass(slots=True)
class Folded:
    """The state that follows from the log."""

    world: World = field(default_factory=lambda: World(lifecycles=SHIPPED))
    #: By stream: how many events it has, and the position of the last one.
    versions: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    #: By stream: the fields of its row that the kernel does not read.
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)
    evidence: Rows = field(default_factory=dict)
    #: Streams without rows: deleted, or not to be folded because data was blanked or is wrong.
    deleted: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    flaws: list[Difference] = field(default_factory=list)
    #: Whether early events were removed: what is left of deleted streams may begin in their middle.
    trimmed: bool = False

    def tasks(self) -> Iterator[Task]:
        """Tasks that should have rows."""
        return (task for task in self.world.tasks.values() if self._kept(task.id))

    def jobs(self) -> Iterator[Job]:
        """Jobs that should have rows; they are deleted with their task."""
        jobs = self.world.jobs.values()
        return (job for job in jobs if self._kept(job.id) and job.task_id not in self.deleted)

    def limits(self) -> Mapping[str, Mapping[str, Any]]:
        """The pauses and limits that hold."""
        return self.world.known_limits()

    def _kept(self, stream: str) -> bool:
        return stream not in self.deleted and stream not in self.unread


def differences(view: ReadTransaction) -> list[Difference]:
    """All differences between the rows and the log, and errors in the log itself."""
    folded = fold(view)
    return [*folded.flaws, *row_differences(view, folded)]


# ---- folding ---------------------------------------------------------------------------------


def fold(
    view: LogReader,
    progress: Callable[[str, int], None] | None = None,
    batches: Iterable[Sequence[LoggedEvent]] | None = None,
    lifecycles: TaskLifecycles | None = None,
) -> Folded:
    """Replay the whole log. An event that cannot be replayed is a flaw; other streams continue.

    Only one batch of events is in memory at a time, and the resulting rows. `batches` are the
    events to replay if they are not all, `lifecycles` those that the log has no documents of.
    """
    begun = _begun_with(view) if lifecycles is None else lifecycles
    folded = Folded(World(lifecycles=begun), trimmed=_is_trimmed(view))
    for events in all_committed(view) if batches is None else batches:
        for logged in events:
            fold_event(folded, logged)
        if progress is not None:
            progress("fold", events[-1].position)
    return folded


def _is_trimmed(view: LogReader) -> bool:
    return TRIMMED in view.rows("system_state")


def _begun_with(view: LogReader) -> TaskLifecycles:
    """The lifecycles that the first event may use: if documents were trimmed, those of the rows."""
    if not _is_trimmed(view):
        return SHIPPED
    rows = view.rows("lifecycles")
    return {**SHIPPED, **{name: read_document(row["document"]) for name, row in rows.items()}}


def fold_event(folded: Folded, logged: LoggedEvent) -> None:
    stream = logged.stream
    expected = folded.versions.get(stream, 0) + 1
    if logged.version != expected and not _beheaded(folded, logged):
        _flaw(folded, logged, "version", expected, logged.version)
    folded.versions[stream] = logged.version
    folded.last[stream] = logged.position
    if logged.name in TOMBSTONES:
        folded.deleted.add(stream)
    if logged.name == e.LimitsNoted.name and stream == e.SYSTEM:
        folded.unread.discard(stream)  # it contains everything from the trimmed events before it
    if not logged.data:
        folded.unread.add(stream)
        if logged.digest is None:
            _flaw(folded, logged, "digest", "that of the data that was blanked", None)
    if stream in folded.unread:
        return
    try:
        record = read_record(logged)
        folded.world.apply(record)
    except (DetentError, LookupError, TypeError, ValueError) as error:
        folded.unread.add(stream)
        _flaw(folded, logged, "name", f"an event that can follow ({error})", logged.name)
        return
    _note(folded, record)


def _beheaded(folded: Folded, logged: LoggedEvent) -> bool:
    """Whether a trim removed the first events of this stream.

    A trim removes events of deleted streams, and those of the limits, which it records again.
    """
    if not folded.trimmed or logged.stream in folded.versions:
        return False
    if logged.stream not in e.INSTALLATION and logged.data and logged.name not in TOMBSTONES:
        return False
    folded.unread.add(logged.stream)
    return True


def _flaw(folded: Folded, logged: LoggedEvent, name: str, wanted: Any, found: Any) -> None:
    folded.flaws.append(Difference(logged.stream, logged.position, "event", name, wanted, found))


def _note(folded: Folded, record: e.Record) -> None:
    """Record the fields of rows that the kernel does not read."""
    event: Any = record.event
    if isinstance(event, e.TaskCreated):
        extras = {"title": event.title, "payload": event.payload, "tags": list(event.tags)}
        folded.extras[record.stream] = extras
    elif isinstance(event, e.JobCreated):
        folded.extras[record.stream] = {"payload": event.payload}
    elif isinstance(event, e.TaskEdited):
        known = folded.extras[record.stream]
        known.update({name: event.changes[name] for name in known if name in event.changes})
    elif isinstance(event, e.EvidenceAdded):
        fields = type(event).__dataclass_fields__
        row = {name: getattr(event, name) for name in fields} | {"at": record.at}
        folded.evidence[record.stream, record.subject, event.file] = row


# ---- comparing -------------------------------------------------------------------------------


def row_differences(
    view: ReadTransaction,
    folded: Folded,
    tables: Mapping[str, Rows] = NO_ROWS,
) -> Iterator[Difference]:
    """Every row that is missing, unexpected, or different in a column.

    `tables` has rows that were read before.
    """
    jobs = [job.id for job in folded.jobs()]
    owners = {run: job for job in jobs for run in folded.world.parts_of(RUNS, job)}
    pairs: list[tuple[str, Rows, Rows]] = [
        ("task", _expected_tasks(folded), _read(view, "tasks", tables)),
        ("job", _expected_jobs(folded), _read(view, "jobs", tables)),
        ("queue", *_queue(folded, _read(view, "queue", tables))),
        ("run", _parts(folded, RUNS), _read(view, "runs", tables)),
        ("wait", _parts(folded, WAITS), _read(view, "waits", tables)),
        ("checkpoint", _parts(folded, CHECKPOINTS), _read(view, "checkpoints", tables)),
        ("step", _parts(folded, STEPS), _by_job(view.steps(jobs))),
        ("signal", _parts(folded, SIGNALS), _by_job(view.signals(jobs))),
        ("plan", _expected_plans(folded), _found_plans(view, jobs)),
        (
            "evidence",
            _kept_evidence(folded, jobs),
            _found_evidence(_read(view, "evidence", tables), owners),
        ),
        ("resource", _expected_use(view, folded), _found_use(view)),
    ]
    if e.SYSTEM not in folded.unread:
        pairs.append(("limit", _limits(folded.limits()), _limits(view.rows("limits"))))
    if not folded.trimmed and e.LIFECYCLES not in folded.unread:
        installed = _documents(folded.world.installed)
        pairs.append(("lifecycle", installed, _documents(view.rows("lifecycles"))))
    for kind, expected, found in pairs:
        yield from _compare(folded, kind, expected, found)


def _compare(folded: Folded, kind: str, expected: Rows, found: Rows) -> Iterator[Difference]:
    for key in sorted({*expected, *found}):
        stream, what = key[0], " ".join((kind, *map(str, key[1:])))
        position = folded.last.get(stream, 0)
        log, row = expected.get(key), found.get(key)
        if log is None or row is None:
            yield Difference(stream, position, what, "row", log is not None, row is not None)
            continue
        for name, wanted in log.items():
            if row.get(name) != wanted:
                yield Difference(stream, position, what, name, wanted, row.get(name))


def _read(view: ReadTransaction, table: str, tables: Mapping[str, Rows]) -> Rows:
    return tables[table] if table in tables else dict(listed_rows(view, table))


def listed_rows(view: ReadTransaction, table: str) -> Iterator[tuple[tuple[Any, ...], Columns]]:
    """A whole table, page by page, keyed by the stream and by what identifies a row within it."""
    key, stream = LISTED[table], STREAM_COLUMNS.get(table)
    order = stream or key
    after = None
    while page := view.page(Query(table, order=order, after=after, limit=BATCH)):
        for row in page:
            yield ((row[stream], row[key]) if stream else (row[key],)), row
        after = (page[-1][order], page[-1][key])


def _by_job(rows: Iterable[Any]) -> Rows:
    return {(row.job_id, row.name): _columns(row) for row in rows}


def _columns(entity: Any) -> dict[str, Any]:
    """An entity column by column, as a list of rows shows it."""
    columns = entity._asdict().items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in columns}


def expected_rows(folded: Folded) -> Mapping[str, Rows]:
    """The rows of tasks, jobs and runs that follow from the log."""
    tasks, jobs = _expected_tasks(folded), _expected_jobs(folded)
    return {"tasks": tasks, "jobs": jobs, "runs": _parts(folded, RUNS)}


def _expected_tasks(folded: Folded) -> Rows:
    return {
        (task.id,): {
            **_columns(task),
            **folded.extras[task.id],
            "version": folded.versions[task.id],
        }
        for task in folded.tasks()
    }


def _expected_jobs(folded: Folded) -> Rows:
    return {
        (job.id,): {**_columns(job), **folded.extras[job.id], "version": folded.versions[job.id]}
        for job in folded.jobs()
    }


def _queue(folded: Folded, found: Rows) -> tuple[Rows, Rows]:
    """The rows of the queue that follow from the log, and those that were found."""
    old = {row["job_id"] for row in found.values() if row["lane"] == row["intent"]}
    return _expected_queue(folded, old), found


def _expected_queue(folded: Folded, old: Collection[str]) -> Rows:
    """Claimable work, and work that a worker holds; nothing else has a row.

    An `old` row may be from before there were lanes: then its lane is its intent.
    """
    rows: Rows = {}
    for job in folded.jobs():
        known = {name: getattr(job, name) for name in QueueRow._fields if name in Job._fields}
        if job.state == "running":
            held = {"worker": job.worker, "fence": job.fence, "lane": job.intent}
            rows[job.id,] = {**known, **held}
        elif claimable(folded, job):
            lane = job.intent if job.id in old else lane_of(folded.world, job)
            rows[job.id,] = {**known, "due_at": job.not_before, "worker": None, "lane": lane}
    return rows


def claimable(folded: Folded, job: Job) -> bool:
    """Whether work waits for a worker: it is queued, and its task waits for no other."""
    if job.state not in ("queued", "retrying"):
        return False
    return job.task_id is None or folded.world.tasks[job.task_id].open_dependencies == 0


def _parts(folded: Folded, kind: str) -> Rows:
    return {
        (job.id, name): _columns(part)
        for job in folded.jobs()
        for name, part in folded.world.parts_of(kind, job.id).items()
    }


def _expected_plans(folded: Folded) -> Rows:
    return {
        (job.id,): {"plan": folded.world.plans[job.id]} for job in folded.jobs() if job.plan_version
    }


def _found_plans(view: ReadTransaction, jobs: Collection[str]) -> Rows:
    return {(job_id,): {"plan": plan} for job_id, plan in view.plans(jobs).items()}


def _kept_evidence(folded: Folded, jobs: Collection[str]) -> Rows:
    kept = set(jobs)
    return {key: row for key, row in folded.evidence.items() if key[0] in kept}


def _found_evidence(rows: Rows, owners: Mapping[str, str]) -> Rows:
    return {(owners.get(run, ""), run, file): row for (run, file), row in rows.items()}


def _documents(rows: Mapping[str, Any]) -> Rows:
    fields = ("document", "removed")
    return {
        (e.LIFECYCLES, name): {field: row.get(field) for field in fields}
        for name, row in rows.items()
    }


def _expected_use(view: ReadTransaction, folded: Folded) -> Rows:
    return {(each.id,): {"in_use": folded.world.in_use(each.id)} for each in view.resources()}


def _found_use(view: ReadTransaction) -> Rows:
    return {(each.id,): {"in_use": each.in_use} for each in view.resources()}


def _limits(rows: Mapping[str, Any]) -> Rows:
    """Pauses and limits: each row is compared as a whole."""
    return {(e.SYSTEM, name): {"limit": row} for name, row in rows.items()}


# ---- invariants ------------------------------------------------------------------------------


def offences(
    view: LogReader, folded: Folded, batches: Iterable[Sequence[LoggedEvent]] | None = None
) -> Iterator[Difference]:
    """Every job whose events in the log break an invariant, in the order of their last events.

    Also jobs that cannot be folded, because of an event that is invalid in its place. Reads the log
    once; the events of a job are in memory until its last one is read.
    """
    folds = {job.id for job in folded.jobs()}
    jobs = {
        job.id: job
        for job in folded.world.jobs.values()
        if job.id not in folded.deleted and job.task_id not in folded.deleted
    }
    streams: dict[str, list[LoggedEvent]] = {}
    for events in all_committed(view) if batches is None else batches:
        for logged in events:
            job = jobs.get(logged.stream)
            if job is None:
                continue
            streams.setdefault(job.id, []).append(logged)
            if logged.position == folded.last[job.id]:
                yield from _broken(streams.pop(job.id), job if job.id in folds else None)


def _broken(stream: list[LoggedEvent], job: Job | None) -> Iterator[Difference]:
    for number, at, what in invariant_offences(stream, job):
        where, name = stream[at].position, f"invariant {number}"
        yield Difference(stream[at].stream, where, "event", name, "holds", what)


def invariant_offences(stream: Iterable[LoggedEvent], job: Job | None) -> list[invariants.Offence]:
    """The invariants that the events of a job break."""
    return invariants.offences([_item(each) for each in stream], job)


def _item(logged: LoggedEvent) -> invariants.Item:
    """The event as a record, or its name alone if nothing more can be read."""
    try:
        return read_record(logged)
    except (DetentError, ValueError):
        return logged.name


# ---- timers ----------------------------------------------------------------------------------


def timer_differences(tx: WriteTransaction, folded: Folded) -> Iterator[Difference]:
    """Compare the timers in the store, due now or later, with the log."""
    for at in (tx.now(), FAR):
        due = tx.due(FAR, at)
        passed = {job.id for job in folded.jobs() if (_deadline(job) or FAR + 1) <= at}
        over = {
            (wait.job_id, wait.name)
            for job in folded.jobs()
            for wait in folded.world.parts_of(WAITS, job.id).values()
            if wait.due_at is not None and wait.due_at <= at
        }
        for what, log, row in (
            ("deadline", {(job_id,) for job_id in passed}, {(each,) for each in due.deadlines}),
            ("wait", over, set(due.waits)),
        ):
            for key in sorted(log ^ row):
                position = folded.last.get(key[0], 0)
                yield Difference(key[0], position, what, "due", key in log, key in row)


def _deadline(job: Job) -> int | None:
    """The next limit on its time, None once it has ended or was asked to stop."""
    if job.state in ENDED_JOB or job.cancel_reason is not None:
        return None
    return min(filter(None, (job.queue_deadline, job.job_deadline)), default=None)
