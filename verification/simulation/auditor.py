"""The independent auditor: its own records of requests, answers and the log.

It reads the file through its own store and never asks a guard of the kernel. What the
exhaustive search holds every step against, it holds against every step of the real engine too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import apsw

from detent.engine import Claimed, CommandRequest, CommandResult
from detent.engine.batch import Result
from detent.errors import DetentError, Unavailable
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Resource
from detent.kernel.world import RUNS, STEPS, World
from detent.store.codec import read_event
from detent.store.port import ReadTransaction
from detent.store.sqlite import SqliteStore
from detent.store.types import LoggedEvent
from detent.task_lifecycles import SHIPPED
from verification import settlement, variant_choices
from verification.model_search.observer import Witness, keep
from verification.model_search.promises import CHECKS, Step, cancel_is_reported, wrongly_refused
from verification.simulation.injected_faults import Violation
from verification.simulation.limit_records import LimitRecords
from verification.simulation.money_records import MoneyRecords
from verification.simulation.plan_records import PlanRecords
from verification.simulation.planned_work import RESOURCES
from verification.simulation.run_records import MONEY, ROLE, RunRecords

BATCH = 1_000
#: Under whose name schedules submit.
SCHEDULE = "schedule"
#: If one of these was acknowledged, it is in the log.
EVENTFUL = (
    *(c.SubmitTask, c.SubmitJob, c.CompleteRun, c.FailRun, c.TimeOutRun, c.SuspendRun),
    *(c.RecordCheckpoint, c.HandBack, c.ConfirmCancel, c.AcceptTask, c.RejectTask, c.RetryTask),
    *(c.ChargeRun, c.RaiseBudget, c.RecordPlan, c.FailPlan, c.StartStep, c.RestPlan),
)
UNKNOWN = object()
COUNTED = frozenset(
    {
        *(e.WaitBegun, e.WaitCompleted, e.WaitEnded, e.JobFailed),
        *(e.SubtaskDismissed, e.SubtaskHandled, e.VariantChosen),
    }
)


class Act(NamedTuple):
    """The events of one command. `answer` is UNKNOWN if the caller has no answer yet."""

    command: c.Command
    actor: c.Actor
    records: list[e.Record]
    answer: Any


class Auditor:
    """Raises a `Violation` at the first thing that is not as promised."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self._file = apsw.Connection(str(store.path), apsw.SQLITE_OPEN_READONLY)
        self.run_records = RunRecords()
        self.plans = PlanRecords(RESOURCES)
        self.money = MoneyRecords()
        self.limits = LimitRecords()
        self.witnesses: dict[str, Witness] = {}
        self.world = World(lifecycles=SHIPPED)
        self.log: list[LoggedEvent] = []
        self.counts: Counter[str] = Counter()
        #: What has not ended, and what waits for a verdict; both in the order in which it came.
        self.live: dict[str, None] = {}
        self.ready: dict[str, None] = {}
        self._asked: dict[str, tuple[CommandRequest, Any]] = {}
        self._tailed: Counter[str] = Counter()
        self._seen_version = -1

    def close(self) -> None:
        self._file.close()
        self.store.close()

    def data_version(self) -> tuple[int, int]:
        """Differs as soon as anybody has committed a change to the file."""
        return self._file.pragma("data_version"), len(self.log)

    # -- requests and answers --------------------------------------------------------------

    def asked(self, ask: CommandRequest) -> None:
        self.counts["operations"] += 1
        self._asked[ask.actor.name] = (ask, UNKNOWN)

    def answered(
        self, ask: CommandRequest, result: Result | None, before: tuple[int, int] | None
    ) -> None:
        """What the asker heard; None: nothing, its process died. It may have happened all the same.

        `before` is the version of the file before it was asked, if it was asked alone.
        """
        name = ask.actor.name
        if isinstance(result, CommandResult):
            self._asked[name] = (ask, result.value)
        self.look()
        events = self.run_records.heard[name]
        if isinstance(result, DetentError):
            self._refused(ask, result, events, before)
        elif isinstance(result, CommandResult):
            self._accepted(ask, result, events)

    def _refused(
        self, ask: CommandRequest, error: DetentError, events: int, before: tuple[int, int] | None
    ) -> None:
        self.counts["unavailable" if isinstance(error, Unavailable) else "refusals"] += 1
        _check(not events, "P5:", ask.command, "was refused and left", events, "events")
        if error.code == "stale_fence":
            self.counts["stale writes refused"] += 1
            now = self.data_version()
            quiet = before is None or before[1] != now[1] or before == now
            _check(quiet, "P5:", ask.command, "was refused and changed the file")
        # Of several in one batch the next one may have made possible what this one could not.
        alone = before is not None and not isinstance(error, Unavailable)
        if alone and self._known(ask.command):
            found = wrongly_refused(self.world, self.witnesses, ask.command, False, error)
            _check(found is None, found)

    def _known(self, command: c.Command) -> bool:
        if isinstance(command, c.Report):
            return command.grant.job_id in self.witnesses
        if isinstance(command, c.JobCommand):
            return command.job_id in self.witnesses
        return isinstance(command, c.TaskCommand) and command.task_id in self.world.tasks

    def _accepted(self, ask: CommandRequest, result: CommandResult, events: int) -> None:
        command = ask.command
        if isinstance(command, c.CancelTask | c.CancelJob):
            self.counts["cancels"] += 1
        if isinstance(command, c.SubmitTask | c.SubmitJob):
            there = result.value in self.world.tasks or result.value in self.world.jobs
            _check(there, "P1:", result.value, "was acknowledged and is not there")
        if result.repeated:
            _check(not events, "P2: the repeated", command, "left", events, "events")
        elif isinstance(command, EVENTFUL):
            _check(events > 0, "P1:", command, "was acknowledged and is not in the log")

    def claimed(self, claimed: Sequence[Claimed]) -> None:
        self.counts["operations"] += 1
        self.look()
        for each in claimed:
            self.counts["claims"] += 1
            witness = self.witnesses[each.job.id]
            _check(witness.holder == each.grant, "P4:", each.grant, "against", witness)
            _check(witness.attempt == each.job.attempt, "P13:", each.job, "against", witness)

    def renewed(self, kept: Iterable[tuple[str, int]], until: int) -> None:
        self.counts["operations"] += 1
        self.look()
        for job_id, fence in kept:
            holder = self.witnesses[job_id].holder
            held = holder is not None and holder.fence == fence
            _check(held, "P5: a heartbeat renewed", job_id, "under", fence, ", held by", holder)
            self.run_records.leases[job_id, fence] = until

    def performed(self, grant: c.Grant, name: str) -> None:
        """A worker does something that the database knows nothing of."""
        self.look()
        self.counts["effects"] += 1
        found = self.run_records.performed(grant, name)
        _check(found is None, "P6:", found)

    def performed_step(self, grant: c.Grant, run_id: str, name: str, resource: str | None) -> None:
        """A step of a plan does its work, with the resource that it was given."""
        self.look()
        self.counts["step effects"] += 1
        found = self.plans.performed(run_id, resource)
        _check(found is None, "plans:", found, "under", grant, name)

    def tailed(self, reader: str, batch: Sequence[LoggedEvent]) -> None:
        self.look()
        at = self._tailed[reader]
        expected = self.log[at : at + len(batch)]
        _check(list(batch) == expected, "P7:", reader, "missed an event or saw one twice after", at)
        self._tailed[reader] += len(batch)

    def unread(self, reader: str) -> int:
        return len(self.log) - self._tailed[reader]

    def short_of_money(self) -> Iterator[str]:
        """Tasks whose budget is used up while work below them waits for it."""
        for (job_id, _), wait in self.run_records.waits.items():
            if wait.kind in MONEY:
                line = self.money.line(self.money.task_of.get(job_id))
                yield from (each for each in line if self.money.accounts[each].used_up)

    # -- the log ---------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what was committed since the last look."""
        version = self._file.pragma("data_version")
        if version == self._seen_version:
            return
        self._seen_version = version
        after = self.log[-1].position if self.log else 0
        with self.store.read() as view:
            events = view.events(after, BATCH)
            if not events:
                return
            self.log += events
            for event in events:
                found = self.limits.note(_record(event))
                _check(found is None, "limits:", found)
            for act in self._acts([event for event in events if event.stream != e.SYSTEM]):
                self._take(act)
            self._compare(view, {event.stream for event in events})

    def _acts(self, events: Sequence[LoggedEvent]) -> Iterator[Act]:
        """Each command by itself: the log says by whom an event was caused."""
        for name, group in groupby(events, key=lambda event: event.actor):
            records = [_record(event) for event in group]
            self.run_records.heard[name] += len(records)
            if name == "clock":
                yield from self._of_clock(records)
            elif name == SCHEDULE:
                yield from _submissions(records)
            elif name in self._asked:
                ask, answer = self._asked[name]
                yield Act(ask.command, ask.actor, records, answer)
            else:
                keeper = name == "keeper"
                stream = records[0].stream
                command = c.CheckTask(stream) if keeper else c.ClaimJob(stream, name, "")
                yield Act(command, c.Actor(name), records, UNKNOWN)

    def _of_clock(self, records: list[e.Record]) -> Iterator[Act]:
        """Each lost lease begins where a held job is let go of; what follows the last are waits."""
        starts: list[int] = []
        lost: set[str] = set()
        for at, record in enumerate(records):
            if record.stream not in lost and self._lost(record):
                starts.append(at)
                lost.add(record.stream)
        for start, end in zip([0, *starts], [*starts, len(records)], strict=True):
            part = records[start:end]
            if part and start in starts:
                yield self._reclaim(part)
            elif part:
                yield Act(c.WakeJob(part[0].stream, ""), c.Actor("clock"), part, UNKNOWN)

    def _lost(self, record: e.Record) -> bool:
        """The first event that takes a job from its holder; a plan may have no run to end."""
        witness = self.witnesses.get(record.stream)
        if witness is None or witness.holder is None:
            return False
        event = record.event
        run = isinstance(event, e.RunCancelled) and event.reason == "worker_lost"
        return run or isinstance(event, e.JobRequeued | e.JobCancelled | e.JobFailed)

    def _reclaim(self, records: list[e.Record]) -> Act:
        self.counts["reclaims"] += 1
        job_id = records[0].stream
        holder = self.witnesses[job_id].holder
        fence = 0 if holder is None else holder.fence
        found = self.run_records.reclaimed(job_id, fence, records[0].at)
        _check(found is None, "P14:", found)
        return Act(c.ReclaimJob(job_id, fence), c.Actor("clock"), records, UNKNOWN)

    def _take(self, act: Act) -> None:
        """Book an act, and hold it against every promise."""
        found = self.plans.judged(act.command, act.records)
        _check(found is None, "the critic:", found)
        found = self.money.note(act.command, act.records, act.answer)
        _check(found is None, "money:", found, "by", act.command)
        for record in act.records:
            found = self.run_records.note(record, act.command)
            _check(found is None, "P10:", found)
            found = self.plans.note(record)
            _check(found is None, "plans:", found, "by", act.command)
            if isinstance(record.event, e.JobRunning):
                self._free(record.stream)
            elif type(record.event) in COUNTED:
                self._count(record.event)
        concerned = self._concerned(act)
        before = part_of(self.world, concerned)
        witnesses = {each: self.witnesses[each] for each in concerned if each in self.witnesses}
        self._fold(act.records)
        found = next(settlement.flaws(before, self.world, act.command, act.records), None)
        _check(found is None, "settled:", found, "by", act.command)
        found = next(variant_choices.flaws(before, self.world, act.records), None)
        _check(found is None, "variants:", found, "by", act.command)
        concerned = {**concerned, **self._concerned(act)}
        after = part_of(self.world, concerned)
        kept = keep(witnesses, act.command, act.records)
        self._record(after, kept)
        step = Step(
            *(before, witnesses, act.command, act.actor, act.records),
            *(act.answer, after, kept, lambda job_id: ROLE.retries),  # noqa: ARG005
        )
        for check in CHECKS:
            if check is cancel_is_reported and act.answer is UNKNOWN:
                continue
            broken = next(check(step), None)
            _check(broken is None, broken, "by", act.command)

    def _count(self, event: e.Event) -> None:
        """What a run must have seen, or it has proved nothing."""
        if isinstance(event, e.WaitBegun):
            self.counts["budgets spent"] += event.kind in MONEY
            self.counts["waits for a resource"] += event.kind == "resource"
        elif isinstance(event, e.WaitCompleted | e.WaitEnded):
            self.counts["budgets raised"] += event.outcome == "raised"
        elif isinstance(event, e.JobFailed):
            self.counts["budgets spent"] += event.error_class == "budget"
        elif isinstance(event, e.VariantChosen):
            self.counts["variants chosen"] += 1
        else:
            handled = isinstance(event, e.SubtaskHandled)
            self.counts["outcomes handled" if handled else "dismissals"] += 1

    def _concerned(self, act: Act) -> dict[str, None]:
        """The tasks and jobs that an act is about, and with each job its task and the reverse.

        The promises are about these: whatever else there is has no event in the act, and that the
        rows of what has no event do not change is checked in the end.
        """
        ids = dict.fromkeys(record.stream for record in act.records)
        ids.update(dict.fromkeys(subjects(act.command)))
        for each in tuple(ids):
            job, task = self.world.jobs.get(each), self.world.tasks.get(each)
            linked = job.task_id if job is not None else task.job_id if task is not None else None
            if linked is not None:
                ids[linked] = None
                latest = self.world.tasks[linked].job_id if linked in self.world.tasks else None
                if latest is not None:
                    ids[latest] = None
        return ids

    def _record(self, after: World, kept: Mapping[str, Witness]) -> None:
        self.witnesses.update(kept)
        for job_id, witness in kept.items():
            _keep_in(self.live, job_id, witness.ended is None)
        for task in after.tasks.values():
            _keep_in(self.ready, task.id, task.state == "ready")

    def _free(self, job_id: str) -> None:
        """P4: no worker holds what is claimed, nor anything else under its concurrency key."""
        holder, key = self.witnesses[job_id].holder, self.world.jobs[job_id].concurrency_key
        _check(holder is None, "P4:", job_id, "was claimed while", holder, "holds it")
        for other, witness in self.witnesses.items() if key is not None else ():
            free = witness.holder is None or self.world.jobs[other].concurrency_key != key
            _check(free, "P4:", job_id, "and", other, "run together under the key", key)

    def _fold(self, records: list[e.Record]) -> None:
        folded = World(self.world)
        try:
            for record in records:
                folded.apply(record)
        except DetentError as error:
            raise Violation(f"P8: the log cannot be folded: {error}") from error
        self.world.merge(folded, records)

    def _compare(self, view: ReadTransaction, streams: set[str]) -> None:
        """P8: at every commit the rows are what the log says."""
        for found in (view.tasks(streams), view.jobs(streams)):
            for row, version in found:
                folded = self.world.find_task(row.id) or self.world.find_job(row.id)
                same = folded == row and version == self.world.versions[row.id]
                _check(same, "P8: the row is", row, "at", version, ", the log says", folded)
        planned = [each for each in streams if each in self.plans.plans]
        if planned:
            self._compare_plans(view, planned)

    def _compare_plans(self, view: ReadTransaction, job_ids: list[str]) -> None:
        """The same for steps; the rows and the records agree on what is held."""
        for step in view.steps(job_ids):
            folded = self.world.part(STEPS, step.job_id, step.name)
            _check(folded == step, "P8: the row is", step, ", the log says", folded)
        in_use = {each.id: each.in_use for each in view.resources()}
        recorded = self.plans.in_use()
        _check(in_use == recorded, "resources: in use are", in_use, ", booked", recorded)
        health = {each.id: health_of(each) for each in view.resources() if each.service}
        known = self.plans.providers.rows()
        _check(health == known, "providers: the rows say", health, ", recorded are", known)


def health_of(resource: Resource) -> tuple[int, int, int]:
    """What is recorded about a provider too."""
    health = resource.health
    return health.limited_until, health.failures, health.open_until


def subjects(command: c.Command) -> Iterator[str]:
    """The tasks and jobs that a command names."""
    if isinstance(command, c.Report):
        yield command.grant.job_id
    elif isinstance(command, c.JobCommand):
        yield command.job_id
    elif isinstance(command, c.TaskCommand):
        yield command.task_id


def _submissions(records: list[e.Record]) -> Iterator[Act]:
    """What schedules have submitted, task by task."""
    starts = [at for at, each in enumerate(records) if isinstance(each.event, e.TaskCreated)]
    for start, end in pairwise([*starts, len(records)]):
        made: Any = records[start].event
        where = (made.project, made.lifecycle, made.intent, made.source)
        command = c.SubmitTask(records[start].stream, *where, options=made.options, queue=True)
        yield Act(command, c.Actor(SCHEDULE), records[start:end], UNKNOWN)


def part_of(world: World, ids: Iterable[str]) -> World:
    """What a world says of some of its tasks and jobs, and stays so while it goes on."""
    part = World(lifecycles=SHIPPED)
    for each in ids:
        if each in world.tasks:
            part.tasks[each] = world.tasks[each]
        if each in world.jobs:
            part.jobs[each] = world.jobs[each]
            part.parts[RUNS, each] = world.parts_of(RUNS, each)
    return part


def _keep_in(kept: dict[str, None], name: str, stays: bool) -> None:
    if stays:
        kept.setdefault(name)
    else:
        kept.pop(name, None)


def _record(event: LoggedEvent) -> e.Record:
    read = read_event(event.name, event.schema, event.data)
    return e.Record(event.stream, event.subject, read, event.at, event.actor)


def _check(holds: bool, *words: object) -> None:
    """The words are put together only if it does not hold: that takes longer than to look."""
    if not holds:
        raise Violation(" ".join(map(str, words)))
