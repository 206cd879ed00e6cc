"""The stage for stories: a loop of decide and merge over the real kernel, with a settable clock.

Every command gives back its state events as one line of words, in order, at all four levels:
`[whose:]event[(what matters about it)]`. `whose` is left out where there is only one task `T` or
one job `J`; `P:` is task P or its first job, `j2:` a second job, `A:` step A and its runs. After
every command the log is folded from scratch, as it would come back from a store, and must give the
state.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.decide import decide
from detent.kernel.entities import Job, Resource, Run, Step, Task
from detent.kernel.invariants import offences
from detent.kernel.world import RUNS, STEPS, WAITS, World
from detent.task_lifecycles import SHIPPED, all_lifecycles

LIFECYCLES = all_lifecycles()

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE

PERSON, WORKER, KEEPER = c.Actor("person"), c.Actor("worker"), c.Actor("keeper")
ALONE = ("T", "J")
MOVES = {name for lifecycle in LIFECYCLES.values() for name in lifecycle.events}


def plan(*rows: str | dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plan from lines like `B < A`: B needs A. Other fields go to every step."""
    steps = []
    for row in rows:
        if isinstance(row, str):
            name, _, needs = row.partition("<")
            row = {"name": name.strip(), "needs": needs.split()}
        steps.append({**more, **row})
    return {"steps": steps}


class Story:
    """A world, a clock, and everybody's verbs on it. `at` is a task or a job alone."""

    def __init__(self, *resources: Resource) -> None:
        self.now = 1_700_000_000 * SECOND
        self.world = World(lifecycles=SHIPPED)
        self.world.resources.update({each.id: each for each in resources})
        self.log: list[e.Record] = []
        self.last: list[e.Record] = []
        self.answer: Any = None
        self.grants: dict[str, c.Grant] = {}

    # -- the loop ------------------------------------------------------------------------------

    def do(self, command: c.Command, actor: c.Actor = PERSON) -> str:
        """Carry a command out; its state events."""
        draft = decide(self.world, command, self.now, actor)
        self.world.merge(draft, draft.records)
        self.answer = draft.answer
        return self._take(draft.records)

    def happened(self, job: str, *events: tuple[e.Event, str | None]) -> None:
        """Events that our own commands never leave standing alone, as another writer's log may."""
        records = [e.Record(job, subject, event, self.now, "other") for event, subject in events]
        for record in records:
            self.world.apply(record)
        self._take(records)

    def _take(self, records: list[e.Record]) -> str:
        self.last = records
        self.log += records
        self._folds()
        return " ".join(self._word(each) for each in records if each.event.name in MOVES)

    def refused(self, command: c.Command, actor: c.Actor = PERSON) -> DetentError:
        """The refusal of a command that must be refused."""
        with pytest.raises(DetentError) as caught:
            decide(self.world, command, self.now, actor)
        self._folds()  # and it has changed nothing
        return caught.value

    def later(self, seconds: float) -> "Story":
        self.now += int(seconds * SECOND)
        return self

    # -- looking -------------------------------------------------------------------------------

    def task(self, at: str = "T") -> Task:
        return self.world.task(at)

    def job(self, at: str = "") -> Job:
        return self.world.job(self.job_id(at))

    def job_id(self, at: str = "") -> str:
        at = at or next(each for each in ALONE if self.world.find_task(each) or each == "J")
        task = self.world.find_task(at)
        return at if task is None else str(task.job_id)

    def step(self, name: str, at: str = "") -> Step:
        found: Step = self.world.part(STEPS, self.job_id(at), name)
        return found

    def run_id(self, at: str = "", step: str | None = None) -> str:
        runs: Iterable[Run] = self.world.parts_of(RUNS, self.job_id(at)).values()
        return next(run.id for run in runs if run.state == "running" and run.step == step)

    def waits(self, at: str = "") -> list[str]:
        return list(self.world.parts_of(WAITS, self.job_id(at)))

    def facts(self) -> list[str]:
        """The events of the last command that moved no state."""
        return [each.event.name for each in self.last if each.event.name not in MOVES]

    def fact(self, name: str) -> Any:
        """The first event of that name in the last command."""
        return next(each.event for each in self.last if each.event.name == name)

    def states(self, at: str = "T") -> str:
        """Where a task and its job stand."""
        return f"{self.task(at).state} {self.job(at).state}"

    # -- people --------------------------------------------------------------------------------

    def submit(self, lifecycle: str, task: str = "T", *, queue: bool = True, **more: Any) -> str:
        options = {**more.pop("options", {})}
        for name in [name for name in more if name not in c.SubmitTask.__dataclass_fields__]:
            options[name] = more.pop(name)
        command = c.SubmitTask(
            task, "demo", lifecycle, "build", "cli", queue=queue, options=options, **more
        )
        return self.do(command)

    def submit_job(self, job: str = "J", parent: str | None = None, **options: Any) -> str:
        return self.do(
            c.SubmitJob(job, "demo", "build", parent_job_id=parent, options=options), PERSON
        )

    def cancel(self, at: str = "") -> str:
        if self.world.find_task(at or "T") is None:
            return self.do(c.CancelJob(at or "J"))
        return self.do(c.CancelTask(at or "T"))

    def signal(self, name: str, value: Any = None) -> str:
        return self.do(c.SendSignal(self.job_id(), name, value))

    # -- workers -------------------------------------------------------------------------------

    def claim(self, at: str = "", *starting: str) -> str:
        """Claim the job, and start steps of its plan under the claim."""
        job_id = self.job_id(at)
        nonce = f"nonce{len(self.log)}"
        events = [self.do(c.ClaimJob(job_id, "worker", nonce), WORKER)]
        self.grants[job_id] = self.answer
        return " ".join(events + [self.start(name, at) for name in starting])

    def grant(self, at: str = "") -> c.Grant:
        return self.grants[self.job_id(at)]

    def start(self, step: str, at: str = "") -> str:
        return self.do(c.StartStep(self.grant(at), step), WORKER)

    def succeed(self, at: str = "", step: str | None = None, **more: Any) -> str:
        command = c.CompleteRun(self.grant(at), self.run_id(at, step), **more)
        return self.do(command, WORKER)

    def fail(
        self, error_class: str = "error", at: str = "", step: str | None = None, **more: Any
    ) -> str:
        run_id = self.run_id(at, step)
        return self.do(c.FailRun(self.grant(at), run_id, error_class, "it broke", **more), WORKER)

    def time_out(self, limit: str = "run", at: str = "", step: str | None = None) -> str:
        return self.do(c.TimeOutRun(self.grant(at), self.run_id(at, step), limit), WORKER)

    def suspend(
        self, kind: str, wait: str = "wait", at: str = "", step: str | None = None, **more: Any
    ) -> str:
        for_seconds = more.pop("seconds", None)
        if for_seconds is not None:
            more["due_at"] = self.now + int(for_seconds * SECOND)
        command = c.SuspendRun(self.grant(at), self.run_id(at, step), wait, kind, **more)
        return self.do(command, WORKER)

    def stopped(self, at: str = "") -> str:
        """The worker confirms that cancelled work has stopped."""
        return self.do(c.ConfirmCancel(self.grant(at)), WORKER)

    def hand_back(self, at: str = "") -> str:
        return self.do(c.HandBack(self.grant(at)), WORKER)

    def rest(self, at: str = "") -> str:
        return self.do(c.RestPlan(self.grant(at)), WORKER)

    # -- the keeper ----------------------------------------------------------------------------

    def reclaim(self) -> str:
        job = self.job()
        return self.do(c.ReclaimJob(job.id, job.fence), KEEPER)

    def due(self, at: str = "") -> str:
        """The moment of the next attempt comes, and the keeper sees it."""
        self.now = max(self.now, self.job(at).not_before)
        return self.do(c.RequeueJob(self.job_id(at)), KEEPER)

    def wake(self, wait: str = "wait", at: str = "") -> str:
        """The moment of a wait comes, and the keeper sees it."""
        known = self.world.part(WAITS, self.job_id(at), wait)
        self.now = max(self.now, known.due_at)
        return self.do(c.WakeJob(self.job_id(at), wait), KEEPER)

    def expire(self, limit: str) -> str:
        """The moment of a limit comes, and the keeper sees it."""
        job = self.job()
        deadline = job.queue_deadline if limit == "queue" else job.job_deadline
        self.now = max(self.now, deadline or 0)
        return self.do(c.ExpireJob(job.id, limit), KEEPER)

    def look(self, at: str = "T") -> str:
        """The keeper checks a blocked task."""
        return self.do(c.CheckTask(at), KEEPER)

    # -- words ---------------------------------------------------------------------------------

    def _word(self, record: e.Record) -> str:
        detail = DETAILS.get(record.event.name)
        details = "" if detail is None else detail(record.event, self.now)
        return self._whose(record) + record.event.name + (f"({details})" if details else "")

    def _whose(self, record: e.Record) -> str:
        task_id, _, number = record.stream.partition("-j")
        names = [] if task_id in ALONE else [task_id]
        names += [] if number in ("", "1") else [f"j{number}"]
        if record.event.level == "step":
            names.append(str(record.subject))
        elif record.event.level == "run":
            run: Run = self.world.part(RUNS, record.stream, str(record.subject))
            names += [] if run.step is None else [run.step]
        return ".".join(names) + ":" if names else ""

    # -- fold == state -------------------------------------------------------------------------

    def _folds(self) -> None:
        folded = World(lifecycles=SHIPPED)
        for record in self.log:
            folded.apply(record._replace(event=_from_the_log(record.event)))
        kept = {key: _kept(parts) for key, parts in folded.parts.items()}
        assert folded.tasks == self.world.tasks
        assert folded.jobs == self.world.jobs
        assert _kept(kept) == _kept({key: _kept(each) for key, each in self.world.parts.items()})
        assert folded.plans == self.world.plans
        assert _kept(folded.usage) == _kept(self.world.usage)
        assert folded.gone == self.world.gone
        self._follow_the_tables()

    def _follow_the_tables(self) -> None:
        """Both folds of the names of the events alone give the states, too."""
        names: dict[tuple[str, ...], list[str]] = defaultdict(list)
        streams: dict[str, list[e.Record]] = defaultdict(list)
        for record in self.log:
            names[record.event.level, record.stream, record.subject or ""].append(record.event.name)
            streams[record.stream].append(record)
        for (level, stream, subject), events in names.items():
            state = self._state(level, stream, subject)
            if state is not None:
                lifecycle = LIFECYCLES[self._lifecycle(level, stream)]
                assert lifecycle.fold(events) == lifecycle.derive(events) == state
        for job in self.world.jobs.values():
            assert offences(streams[job.id], job) == []

    def _state(self, level: str, stream: str, subject: str) -> str | None:
        if level == "task":
            return self.world.tasks[stream].state
        if level == "job":
            return self.world.jobs[stream].state
        if level == "run":
            return str(self.world.part(RUNS, stream, subject).state)
        once = level == "step" and self.world.jobs[stream].plan_version == 1
        return str(self.world.part(STEPS, stream, subject).state) if once else None

    def _lifecycle(self, level: str, stream: str) -> str:
        return self.world.tasks[stream].lifecycle if level == "task" else level


def _from_the_log(event: e.Event) -> e.Event:
    return msgspec.json.decode(msgspec.json.encode(event), type=type(event))


def _kept(found: dict[Any, Any]) -> dict[Any, Any]:
    """Without what was dropped, and what counts to nothing."""
    return {key: value for key, value in found.items() if value}


# ---- what matters about an event -------------------------------------------------------------


def _reason(event: Any, now: int) -> str:
    return "" if event.reason == "cancelled" else str(event.reason)


def _error_class(event: Any, now: int) -> str:
    return "quarantined" if getattr(event, "quarantined", False) else str(event.error_class)


def _delay(event: Any, now: int) -> str:
    return f"{(event.not_before - now) / SECOND:g}s"


def _resource(event: Any, now: int) -> str:
    return "" if event.resource == "local" else str(event.resource)


def _blocked(event: Any, now: int) -> str:
    return f"{event.reason},0" if event.retries_left == 0 else str(event.reason)


def _names(field: str) -> Callable[[Any, int], str]:
    return lambda event, now: ",".join(getattr(event, field))


def _outcome(event: Any, now: int) -> str:
    return "" if event.outcome == "done" else str(event.outcome)


DETAILS: dict[str, Callable[[Any, int], str]] = {
    "run_queued": lambda event, now: str(event.attempt),
    "run_succeeded": _outcome,
    "run_failed": _error_class,
    "run_timed_out": lambda event, now: str(event.limit),
    "run_cancelled": _reason,
    "job_requeued": _reason,
    "job_retrying": _delay,
    "job_waiting": _reason,
    "job_parked": _reason,
    "wait_completed": _outcome,
    "job_failed": _error_class,
    "job_cancelled": _reason,
    "task_blocked": _blocked,
    "task_answered": _outcome,
    "task_failed": _error_class,
    "task_cancelled": _reason,
    "task_rejected": lambda event, now: str(event.round),
    "step_waiting_deps": _names("on"),
    "step_leased": _resource,
    "step_running": _resource,
    "step_failed_retryable": _error_class,
    "step_retrying": _delay,
    "step_failed_resource": _resource,
    "step_switching_resource": _names("avoid"),
    "step_failed_fatal": _error_class,
    "step_failed": _reason,
}


# ---- where many stories begin ----------------------------------------------------------------


def running(lifecycle: str, **more: Any) -> Story:
    """A task that a worker has just begun, without a plan; `job` is a job without a task."""
    story = Story()
    if lifecycle == "job":
        story.submit_job(**more)
    else:
        story.submit(lifecycle, **more)
    story.claim()
    return story


def running_plan(lifecycle: str, *starting: str, **more: Any) -> Story:
    """A task whose plan has these steps at work; `plan` and other options are given."""
    resources = more.pop("resources", ())
    story = Story(*resources)
    if lifecycle == "job":
        story.submit_job(**more)
    else:
        story.submit(lifecycle, **more)
    story.claim("", *starting)
    return story
