"""Compares what was observed with the promises: the log, effects outside, answers to clients.

Pure: it works on its arguments only. Each problem begins with the promise that it breaks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from verification.fault_injection.client_history import Op
from verification.fault_injection.effect_record import DO, PAST, Line

WORKER = "worker:"
#: What only the holder of a job may write into the job's stream.
REPORTS = frozenset(
    {
        *("checkpoint_recorded", "effect_begun", "wait_begun", "evidence_added"),
        *("run_succeeded", "run_failed", "run_timed_out", "run_progressed", "run_started"),
        *("plan_generated", "step_leased", "step_running", "job_completed", "job_waiting"),
    }
)
ENDS = frozenset({"job_completed", "job_failed", "job_cancelled"})
#: The states in which a job that has not ended may rightly be.
AT_REST = frozenset({"waiting", "parked"})
#: Facts that may come after the end and move nothing; a failed job is run again by a person.
AFTER_END = frozenset({"job_deleted", "signal_received", "job_forked", "evidence_added"})


#: The field that names the parent of a new job or task.
PARENTS = {"job_created": "parent_job_id", "task_created": "parent_id"}


class Seen(NamedTuple):
    """One event of the log, its data read."""

    position: int
    stream: str
    version: int
    name: str
    subject: str | None
    actor: str
    data: Mapping[str, Any]


class Evidence(NamedTuple):
    """Everything that a fault-injection run leaves behind."""

    log: Sequence[Seen]
    effects: Mapping[str, Sequence[Line]] = {}
    history: Sequence[Op] = ()
    #: States by id, as the rows have them at the end.
    jobs: Mapping[str, str] = {}
    tasks: Mapping[str, str] = {}


def problems(seen: Evidence) -> list[str]:
    """Everything that is not as promised; empty if all is well."""
    return [
        *order_problems(seen.log),
        *stream_problems(seen.log),
        *subtask_problems(seen.log),
        *effect_problems(seen.effects),
        *end_problems(seen),
        *answer_problems(seen),
    ]


# ---- the log ---------------------------------------------------------------------------------


def order_problems(log: Sequence[Seen]) -> Iterator[str]:
    """P7: positions rise, and each stream counts from one without a gap."""
    versions: Counter[str] = Counter()
    last = 0
    for event in log:
        if event.position <= last:
            yield f"P7: position {event.position} comes after {last}"
        last = event.position
        versions[event.stream] += 1
        if event.version != versions[event.stream]:
            yield f"P7: {event.stream} has version {event.version} at {versions[event.stream]}"


class JobRecord:
    """One job's stream, read from the front."""

    def __init__(self) -> None:
        self.fence = 0
        self.holder: str | None = None
        self.recorded: set[str] = set()
        self.ended: str | None = None

    def read(self, event: Seen) -> Iterator[str]:
        yield from self._claim(event)
        yield from self._report(event)
        yield from self._end(event)
        yield from self._record(event)

    def _claim(self, event: Seen) -> Iterator[str]:
        if event.name == "job_running":
            fence = event.data["fence"]
            if fence <= self.fence:
                yield f"P4: {event.stream} was claimed with fence {fence} after {self.fence}"
            self.fence = fence
            self.holder = f"{WORKER}{event.data['worker']}"
        elif event.name == "job_requeued" and not event.actor.startswith(WORKER):
            self.holder = None

    def _report(self, event: Seen) -> Iterator[str]:
        theirs = event.name in REPORTS and event.actor.startswith(WORKER)
        if theirs and event.actor != self.holder:
            yield (
                f"P5: {event.name} of {event.actor} is in {event.stream} at {event.position}, "
                f"which {self.holder or 'no worker'} held"
            )

    def _end(self, event: Seen) -> Iterator[str]:
        if self.ended == "job_failed" and event.name == "job_requeued":
            self.ended = None
        elif self.ended and event.name.startswith("job_") and event.name not in AFTER_END:
            yield f"P9: {event.stream} went on with {event.name} after {self.ended}"
        if event.name in ENDS:
            self.ended = event.name

    def _record(self, event: Seen) -> Iterator[str]:
        if event.name == "checkpoint_recorded":
            name = event.subject or ""
            if name in self.recorded:
                yield f"P6: {name} of {event.stream} was recorded twice"
            self.recorded.add(name)


def stream_problems(log: Iterable[Seen]) -> Iterator[str]:
    """P4, P5, P6, P9 for every job of the log."""
    records: defaultdict[str, JobRecord] = defaultdict(JobRecord)
    for event in log:
        yield from records[event.stream].read(event)


def subtask_problems(log: Iterable[Seen]) -> Iterator[str]:
    """P6: no handler starts the same subtask twice, so each pair occurs once for each job."""
    handed: Counter[tuple[str, str]] = Counter()
    jobs: Counter[str] = Counter()
    for event in log:
        parent = event.data.get(PARENTS.get(event.name, ""))
        if parent is not None:
            handed[parent, event.data["intent"]] += 1
        if event.name == "job_created" and event.data.get("task_id") is not None:
            jobs[event.data["task_id"]] += 1
    for (parent, intent), count in handed.items():
        if count > max(jobs[parent], 1):
            yield f"P6: {parent} has {count} subtasks {intent}"


# ---- the world outside -----------------------------------------------------------------------


def effect_problems(effects: Mapping[str, Sequence[Line]]) -> Iterator[str]:
    """P6: an effect is done once; a step is not done again once its result was seen."""
    for job_id, lines in effects.items():
        done = Counter(line.name for line in lines if line.word == DO)
        for name, count in done.items():
            if name.startswith("effect:") and count > 1:
                yield f"P6: {name} of {job_id} was done {count} times"
        yield from _again(job_id, lines)


def _again(job_id: str, lines: Sequence[Line]) -> Iterator[str]:
    past: set[str] = set()
    done: set[str] = set()
    for line in lines:
        if line.word == PAST:
            past.add(line.name)
            if line.name not in done:
                yield f"P6: {line.name} of {job_id} has a result and was never done"
        elif line.word == DO:
            done.add(line.name)
            if line.name in past:
                yield f"P6: {line.name} of {job_id} was done again after its result was seen"


# ---- the end, and the answers to clients -----------------------------------------------------


def end_problems(seen: Evidence) -> Iterator[str]:
    """P3: after the faults have stopped nothing that could run is left."""
    for job_id, state in seen.jobs.items():
        if f"job_{state}" not in ENDS and state not in AT_REST:
            yield f"P3: {job_id} is {state} after everything has come to rest"


def answer_problems(seen: Evidence) -> Iterator[str]:
    """P1, P2, P11, P12: every acknowledgement to a client is true."""
    made, answered = _made(seen.log), _answered(seen.log)
    for key, ids in made.items():
        if len(ids) > 1:
            yield f"P2: key {key} created {len(ids)} tasks or jobs: {', '.join(sorted(ids))}"
    acknowledged: defaultdict[str, set[str]] = defaultdict(set)
    for op in seen.history:
        if op.kind == "submit" and op.outcome == "ok":
            acknowledged[op.key].add(op.id)
        yield from _verb_problems(op, seen)
        if op.kind == "answer" and op.outcome == "ok" and op.id not in answered:
            yield f"P1: an answer to {op.id} was acknowledged, and the log has none"
    for key, ids in acknowledged.items():
        if len(ids) > 1:
            yield f"P2: key {key} was answered with {', '.join(sorted(ids))}"
        if not ids <= made.get(key, set()):
            yield f"P1: key {key} was acknowledged as {', '.join(ids)}, which the log has not"


def _made(log: Iterable[Seen]) -> dict[str, set[str]]:
    """The tasks and jobs that clients have submitted, by the key in their payload."""
    made: defaultdict[str, set[str]] = defaultdict(set)
    for event in log:
        payload = event.data.get("payload")
        first = event.name == "task_created" or (
            event.name == "job_created" and event.data.get("task_id") is None
        )
        if first and isinstance(payload, Mapping) and "key" in payload:
            made[payload["key"]].add(event.stream)
    return made


def _answered(log: Iterable[Seen]) -> set[str]:
    """Jobs of which a question was answered, and their tasks."""
    tasks: dict[str, str | None] = {}
    answered: set[str] = set()
    for event in log:
        if event.name == "job_created":
            tasks[event.stream] = event.data.get("task_id")
        elif event.name == "wait_completed" and event.data["outcome"] == "answered":
            answered |= {event.stream, tasks.get(event.stream) or ""}
    return answered


#: The states in which a task may end after this acknowledgement.
FINAL_STATES: Mapping[tuple[str, str], frozenset[str]] = {
    ("accept", ""): frozenset({"completed"}),
    ("cancel", "cancelled"): frozenset({"cancelled"}),
    ("cancel", "requested"): frozenset(
        {
            *("cancelled", "completed", "ready", "failed", "done"),
            *("approval", "overdue", "released", "broken"),
        }
    ),
}


def _verb_problems(op: Op, seen: Evidence) -> Iterator[str]:
    if op.outcome != "ok":
        return
    allowed = FINAL_STATES.get((op.kind, op.answer), FINAL_STATES.get((op.kind, "")))
    if allowed is None:
        return
    state = seen.tasks.get(op.id, seen.jobs.get(op.id, "gone"))
    if state not in allowed:
        promise = "P12" if op.kind == "accept" else "P11"
        yield f"{promise}: {op.kind} of {op.id} was acknowledged ({op.answer}), and it is {state}"
