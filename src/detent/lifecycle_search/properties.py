"""What must hold after every step of a search. Each property yields what breaks it.

None of them calls a decision of the kernel, so that an error there cannot hide itself.
"""

from collections.abc import Callable, Iterator, Mapping

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Phase, TaskLifecycle
from detent.lifecycle_search.followed_rules import rules_are_followed
from detent.lifecycle_search.scenario import WORKER, Action
from detent.lifecycle_search.search_state import job_of
from detent.lifecycle_search.search_step import Break, Step, round_limit

#: The properties by name, with what each of them promises.
PROPERTIES: Mapping[str, str] = {
    "report": "No report of a worker that has claimed the job is refused.",
    "table": "No event is sent or emitted that the table does not have.",
    "phase": "The phase of a task's state fits its job.",
    "rule": "The first rule that applies is followed.",
    "final": "A terminal state is never left.",
    "cancel": "A cancel leads to an end, and reaches the job.",
    "rounds": "The limit of rounds holds.",
    "subtasks": "A task whose job completed finishes when its last subtask is settled.",
    "end": "From every state an end can be reached without giving the task up.",
}
#: The states of the job that fit a phase; None: there is no job.
FITTING: Mapping[Phase, frozenset[str | None]] = {
    Phase.IDLE: frozenset({None, *ENDED_JOB}),
    Phase.QUEUED: frozenset({"queued"}),
    Phase.WORKING: frozenset({"queued", "running", "waiting", "parked"}),
    Phase.BLOCKED: frozenset({"queued", "waiting", "parked", "retrying", *ENDED_JOB}),
}
#: The reasons for which a task may be blocked while its job has ended.
BLOCKED_AFTER: Mapping[str, frozenset[str]] = {
    "completed": frozenset({"subtasks"}),
    "failed": frozenset({"error", "budget"}),
    "cancelled": frozenset({"dependency"}),
}


def refused(action: Action, error: Exception) -> Break | None:
    """What a refusal breaks; None if it is a fair one."""
    if isinstance(error, DetentError) and error.code in action.fair:
        return None
    text = error.message if isinstance(error, DetentError) else f"{type(error).__name__}: {error}"
    if isinstance(action.command, c.CancelTask):
        return Break("cancel", f"The cancel was refused. {text}")
    name = "report" if action.actor is WORKER else "table"
    return Break(name, f"It was refused. {text}")


def broken(step: Step) -> Break | None:
    """The first property that the step breaks."""
    return next((found for check in CHECKS for found in check(step)), None)


def events_are_in_the_table(step: Step) -> Iterator[Break]:
    for task in step.after.world.tasks.values():
        known = step.before.world.tasks.get(task.id)
        state = task.state if known is None else known.state
        for record in step.records if known is not None else ():
            name = record.event.name
            if record.stream != task.id:
                continue
            if (state, name) in step.lifecycle.move:
                state = step.lifecycle.move[state, name]
            elif name in TASK_EVENTS or isinstance(record.event, e.TaskMoved):
                yield Break("table", f"{name} was emitted in the state {state}.")
        if state != task.state:
            yield Break("table", f"The state is {task.state}; by the table it is {state}.")


def phases_fit(step: Step) -> Iterator[Break]:
    for task in step.after.world.tasks.values():
        job = job_of(step.after.world, task)
        phase = step.lifecycle.phase(task.state)
        job_state = None if job is None else job.state
        fits = job_state in FITTING[phase] or _has_not_begun(phase, job)
        if not fits or not _reason_fits(task, phase, job_state):
            what = "no job" if job_state is None else f"a job that is {job_state}"
            yield Break("phase", f"The state {task.state} has the phase {phase} and {what}.")
    for job in step.after.world.jobs.values():
        current = step.after.world.tasks[job.task_id or ""].job_id == job.id
        if not current and job.state not in ENDED_JOB:
            yield Break("phase", "The task has a new job while the job before it is live.")


def _has_not_begun(phase: Phase, job: Job | None) -> bool:
    """Whether a worker has claimed a job with a plan, and no step runs yet."""
    return (
        phase is Phase.QUEUED
        and job is not None
        and job.plan_version > 0
        and (job.state == "running")
    )


def _reason_fits(task: Task, phase: Phase, job_state: str | None) -> bool:
    reasons = BLOCKED_AFTER.get(job_state or "")
    return phase is not Phase.BLOCKED or reasons is None or task.blocked_by in reasons


def ends_are_final(step: Step) -> Iterator[Break]:
    for task in step.before.world.tasks.values():
        now = step.after.world.tasks[task.id].state
        if task.state in step.lifecycle.terminal and now != task.state:
            yield Break("final", f"The task left the terminal state {task.state} for {now}.")


def cancels_lead_to_an_end(step: Step) -> Iterator[Break]:
    world = step.after.world
    command = step.action.command
    if isinstance(command, c.CancelTask):
        task = world.tasks[command.task_id]
        job = job_of(world, task)
        if job is not None and job.state == "running" and job.cancel_reason is None:
            yield Break("cancel", "The cancel did not reach the job.")
        if (job is None or job.state in ENDED_JOB) and not has_ended(step.lifecycle, task):
            yield Break("cancel", f"After the cancel the state is {task.state}, which is no end.")
    for job in _cancelled_jobs(step):
        task = world.tasks[job.task_id or ""]
        if task.job_id == job.id and not has_ended(step.lifecycle, task):
            yield Break("cancel", f"The job is cancelled and the state is {task.state}, no end.")


def has_ended(lifecycle: TaskLifecycle, task: Task) -> bool:
    """Whether the work has ended; a person may be able to continue it."""
    return lifecycle.ending(task.state, task.retries_left) is not None


def _cancelled_jobs(step: Step) -> Iterator[Job]:
    for record in step.records:
        if isinstance(record.event, e.JobCancelled) and record.event.reason != "dependency":
            yield step.after.world.jobs[record.stream]


def rounds_are_limited(step: Step) -> Iterator[Break]:
    for name, count in step.after.rounds.items():
        limit = round_limit(step.lifecycle, step.after.world.tasks[name])
        if limit is not None and count > limit:
            yield Break("rounds", f"The task has had {count} rounds; its limit is {limit}.")


def settled_parents_finish(step: Step) -> Iterator[Break]:
    for task in step.after.world.tasks.values():
        if task.blocked_by == "subtasks" and task.open_subtasks == 0:
            text = f"The task is {task.state} and waits for subtasks, but none is open."
            yield Break("subtasks", text)


CHECKS: tuple[Callable[[Step], Iterator[Break]], ...] = (
    events_are_in_the_table,
    ends_are_final,
    cancels_lead_to_an_end,
    phases_fit,
    rounds_are_limited,
    rules_are_followed,
    settled_parents_finish,
)
