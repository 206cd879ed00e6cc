"""The write transaction of the memory store: it changes a private copy of the tables."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from detent.errors import Refused
from detent.kernel.lane import suits
from detent.store.codec import event_digest, event_rows
from detent.store.job_sets import JobSets
from detent.store.memory.reader import MemoryReader
from detent.store.memory.tables import (
    Evidence,
    JobRow,
    Queued,
    TaskRow,
    stored,
    stored_value,
)
from detent.store.rows import evidence_row
from detent.store.table_names import REBUILT, TOMBSTONES
from detent.store.types import (
    Candidate,
    ChainBlock,
    Changes,
    ClaimFilter,
    Delivery,
    DueTimers,
    Intake,
    LoggedEvent,
)

#: The tables whose key is a job, or begins with one.
OF_A_JOB = ("jobs", "queue", "deadlines", "steps", "plans", "waits", "signals", "checkpoints")


class MemoryWriter(MemoryReader):
    """Changes a copy of the tables while it holds the write lock."""

    appended = False
    sets: JobSets | None = None

    def lock(self, task_ids: Collection[str], job_ids: Collection[str]) -> None:
        """Nothing to do: there is one writer at a time."""

    def claimable(self, claim_filter: ClaimFilter, limit: int, now: int) -> Sequence[Candidate]:
        waiting = [each for each in self._tables.queue.values() if each.worker is None]
        able = [each for each in waiting if each.due_at <= now and _able(claim_filter, each)]
        able.sort(key=lambda each: (each.rank, each.project, each.job_id))
        return [
            Candidate(each.job_id, each.intent, each.project, each.concurrency_key)
            for each in claim_filter.shares.first(able, limit)
        ]

    def lease_counts(self, keys: Collection[str]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for each in self._leased():
            names = (
                f"intent:{each.intent}",
                f"project:{each.project}",
                f"key:{each.concurrency_key}",
            )
            counts.update(name for name in names if name in keys)
        return counts

    def _leased(self) -> list[Queued]:
        return [each for each in self._tables.queue.values() if each.worker is not None]

    def due(self, limit: int, now: int) -> DueTimers:
        leases = [(each.lease_until, each.job_id, each.fence) for each in self._leased()]
        waits = [(each.due_at, each.job_id, each.name) for each in self._tables.waits.values()]
        deadlines = [(at, job_id) for job_id, at in self._tables.deadlines.items()]
        return DueTimers(
            [(job_id, fence) for _, job_id, fence in _passed(leases, now)[:limit]],
            [(job_id, wait) for _, job_id, wait in _passed(waits, now)[:limit]],
            [job_id for _, job_id in _passed(deadlines, now)[:limit]],
        )

    def reset_clock(self) -> int:
        if self._ahead:
            self._tables.now = self._now - self._ahead
            self._tables.resets += 1
            for each in self._leased():
                if each.lease_until is not None:
                    until = each.lease_until - self._ahead
                    self._tables.queue[each.job_id] = each._replace(lease_until=until)
        return self._ahead

    def renew(
        self, worker: str, grants: Sequence[tuple[str, int]], until: int
    ) -> set[tuple[str, int]]:
        held = {(each.job_id, each.fence) for each in self._leased() if each.worker == worker}
        renewed = held & set(grants)
        for job_id, _ in renewed:
            leased = self._tables.queue[job_id]
            self._tables.queue[job_id] = leased._replace(lease_until=until)
        return renewed

    def rows_for_update(self, table: str, prefix: str = "") -> Mapping[str, Any]:
        return self.rows_under(table, prefix)

    def rows_held(self, table: str) -> Mapping[str, Any]:
        return self.rows(table)

    def put_rows(self, table: str, rows: Mapping[str, Any]) -> None:
        merged = {**self._tables.named[table], **stored_value(rows)}
        kept = {name: value for name, value in merged.items() if value is not None}
        self._tables.named[table] = kept

    def save(self, changes: Changes) -> None:
        self._save_tasks(changes)
        self._save_jobs(changes)
        self._save_parts(changes)
        self._save_queue(changes)
        for table, named in changes.named_rows():
            self.put_rows(table, named)
        self._tables.keys.update({(key.project, key.key): stored(key) for key in changes.keys})
        for row in event_rows(changes.entries):
            self._append(row)
            self.appended = True
        self._forget(changes)

    def put_intake(self, operation: str, body: str, idempotency_key: str | None = None) -> None:
        number = max(self._tables.intake, default=0) + 1
        self._tables.intake[number] = Intake(number, operation, body, idempotency_key), None

    def end_intake(self, taken: Collection[int], refused: Mapping[int, str]) -> None:
        for number in taken:
            del self._tables.intake[number]
        for number, reason in refused.items():
            self._tables.intake[number] = self._tables.intake[number][0], (self.now(), reason)

    def delete_expired_keys(self, now: int, limit: int) -> int:
        known = sorted(self._tables.keys.values(), key=lambda key: key.expires_at)
        gone = [key for key in known if key.expires_at <= now][:limit]
        for key in gone:
            del self._tables.keys[key.project, key.key]
        return len(gone)

    def put_outbox(self, rows: Sequence[Delivery]) -> None:
        for row in rows:
            number = max(self._tables.outbox, default=0) + 1
            self._tables.outbox[number] = row._replace(id=number, attempts=0, error=None)

    def update_outbox(self, rows: Sequence[Delivery]) -> None:
        for row in rows:
            if row.id in self._tables.outbox:
                self._tables.outbox[row.id] = self._tables.outbox[row.id]._replace(
                    due_at=row.due_at, attempts=row.attempts, error=row.error
                )

    def delete_outbox(self, ids: Collection[int]) -> None:
        for each in ids:
            self._tables.outbox.pop(each, None)

    def put_chain_block(self, block: ChainBlock) -> None:
        last = self.last_chain_block()
        if last is not None and block.from_position <= last.to_position:
            raise Refused("another process has written this chain block", code="version_conflict")
        self._tables.chain_blocks.append(block)

    def clear_rows(self) -> None:
        for table in REBUILT:
            if table != "dependencies":  # read from the tasks here
                getattr(self._tables, table).clear()

    def trim(self, upto: int) -> int:
        kept = [each for each in self._tables.log if each.position > upto] or self._tables.log[-1:]
        gone = len(self._tables.log) - len(kept)
        self._tables.log[:] = kept
        return gone

    def _append(self, row: tuple[Any, ...]) -> None:
        stream, version = row[:2]
        if version <= self._tables.versions.get(stream, 0):
            raise Refused(f"{stream} has an event {version} already", code="version_conflict")
        self._tables.versions[stream] = version
        self._tables.log.append(LoggedEvent._make((self.head() + 1, *row, None)))

    def _save_tasks(self, changes: Changes) -> None:
        tasks, versions = self._tables.tasks, changes.versions
        for task, title, payload, tags in changes.new_tasks:
            if task.id in tasks:
                raise Refused(f"there is a task {task.id} already", code="task_exists")
            tasks[task.id] = stored(TaskRow(task, versions[task.id], title, payload, tags))
        for task in changes.tasks:
            tasks[task.id] = stored(tasks[task.id]._replace(task=task, version=versions[task.id]))
        for task_id, edits in changes.edits.items():
            own = {name: edits[name] for name in ("title", "payload", "tags") if name in edits}
            tasks[task_id] = stored(tasks[task_id]._replace(**own))

    def _save_jobs(self, changes: Changes) -> None:
        jobs, versions = self._tables.jobs, changes.versions
        for job, payload in changes.new_jobs:
            if job.id in jobs:
                raise Refused(f"there is a job {job.id} already", code="job_exists")
            jobs[job.id] = stored(JobRow(job, versions[job.id], payload))
        for job in changes.jobs:
            jobs[job.id] = stored(jobs[job.id]._replace(job=job, version=versions[job.id]))

    def _save_parts(self, changes: Changes) -> None:
        tables = self._tables
        for run in (*changes.new_runs, *changes.runs):
            tables.runs[run.id] = stored(run)
        for step in changes.steps:
            tables.steps[step.job_id, step.plan_version, step.name] = stored(step)
        for job_id, (version, document) in changes.plans.items():
            tables.plans[job_id, version] = stored_value(document)
        for checkpoint in changes.checkpoints:
            tables.checkpoints[checkpoint.job_id, checkpoint.name] = stored(checkpoint)
        for wait in changes.waits:
            tables.waits[wait.job_id, wait.name] = stored(wait)
        for signal in changes.signals:
            tables.signals[signal.job_id, signal.name] = stored(signal)
        for key in changes.ended_waits:
            tables.waits.pop(key, None)
        for ended in (tables.waits, tables.signals):
            _drop(ended, changes.unwaited)
        for entry in changes.evidence:
            row = Evidence._make(evidence_row(entry))
            tables.evidence[row.run_id, row.file] = row

    def _save_queue(self, changes: Changes) -> None:
        queue, deadlines = self._tables.queue, self._tables.deadlines
        for row in changes.queue:
            queue[row.job_id] = Queued(*row)
        for job_id, worker, fence, until in changes.leases:
            held = queue[job_id]._replace(worker=worker, fence=fence, lease_until=until)
            queue[job_id] = held._replace(lane=held.intent)
        for job_id in changes.unqueued:
            queue.pop(job_id, None)
        for job_id, due_at in changes.deadlines:
            deadlines.pop(job_id, None)
            if due_at is not None:
                deadlines[job_id] = due_at

    def _forget(self, changes: Changes) -> None:
        """The events of deleted work stay, without their data, and so does its tombstone."""
        tables = self._tables
        jobs = (row.job for row in tables.jobs.values())
        gone = {job.id for job in jobs if job.task_id in changes.deleted_tasks}
        gone.update(changes.deleted_jobs)
        runs = [run.id for run in tables.runs.values() if run.job_id in gone]
        _drop(tables.tasks, changes.deleted_tasks)
        _drop(tables.runs, runs)
        _drop(tables.evidence, runs)
        for name in OF_A_JOB:
            _drop(getattr(tables, name), gone)
        self._blank(gone.union(changes.deleted_tasks))

    def _blank(self, streams: Collection[str]) -> None:
        """Keep the digests, so that the hash chain still matches."""
        log = self._tables.log
        for at, event in enumerate(log):
            if event.stream in streams and event.data and event.name not in TOMBSTONES:
                log[at] = event._replace(data="", digest=event_digest(event))


def _drop(table: dict[Any, Any], ids: Collection[str]) -> None:
    """Rows whose key is one of the ids, or begins with one."""
    for key in [key for key in table if (key[0] if isinstance(key, tuple) else key) in ids]:
        del table[key]


def _able(claim_filter: ClaimFilter, work: Queued) -> bool:
    return (
        suits(work.lane, claim_filter.intents)
        and (claim_filter.projects is None or work.project in claim_filter.projects)
        and work.intent not in claim_filter.paused_intents
        and work.project not in claim_filter.paused_projects
        and work.concurrency_key not in claim_filter.full_keys
    )


def _passed(times: Iterable[tuple[Any, ...]], now: int) -> list[tuple[Any, ...]]:
    """The entries whose first value, a time, has passed; oldest first."""
    return sorted(each for each in times if each[0] is not None and each[0] <= now)
