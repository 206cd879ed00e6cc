"""The property that rules are followed, with conditions of its own instead of the kernel's."""

from collections.abc import Iterator, Mapping, Sequence

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Task
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Predicate, Rule, TaskLifecycle, Trigger
from detent.lifecycle_search.scenario import CONFLICTING
from detent.lifecycle_search.search_step import Break, Step, round_limit

TRIGGERS: Mapping[type[e.Event], Trigger] = {
    e.RunStarted: Trigger.RUN_STARTED,
    e.JobCompleted: Trigger.JOB_COMPLETED,
    e.JobFailed: Trigger.JOB_FAILED,
    e.JobCancelled: Trigger.JOB_CANCELLED,
}


def rules_are_followed(step: Step) -> Iterator[Break]:
    """After a trigger the task's next events are those of the first rule that applies."""
    for position, record in enumerate(step.records):
        when = TRIGGERS.get(type(record.event))
        task = None if when is None else _task_of(step, record)
        if when is None or task is None:
            continue
        earlier = _moves(step.records[:position], task)
        later = _moves(step.records[position:], task)
        state = _folded(step.lifecycle, task.state, earlier)
        rule = _first_rule(step, when, state, task, record)
        wanted = () if rule is None else rule.then
        if later[: len(wanted)] != wanted:
            text = f"After {when} in {state} a rule emits {_listed(wanted)}, not {_listed(later)}."
            yield Break("rule", text)


def _task_of(step: Step, record: e.Record) -> Task | None:
    """The task before the step, if the event is about its current job."""
    job = step.after.world.jobs[record.stream]
    task = step.before.world.tasks.get(job.task_id or "")
    return task if task is not None and task.job_id == job.id else None


def _moves(records: Sequence[e.Record], task: Task) -> tuple[str, ...]:
    return tuple(
        each.event.name
        for each in records
        if each.stream == task.id
        and (each.event.name in TASK_EVENTS or isinstance(each.event, e.TaskMoved))
    )


def _folded(lifecycle: TaskLifecycle, state: str, events: Sequence[str]) -> str:
    for event in events:
        state = lifecycle.move.get((state, event), state)
    return state


def _listed(events: Sequence[str]) -> str:
    return ", ".join(events) or "nothing"


def _first_rule(step: Step, when: Trigger, state: str, task: Task, record: e.Record) -> Rule | None:
    holds = _conditions(step, task, record)
    for rule in step.lifecycle.rules:
        fits = rule.when is when and (not rule.states or state in rule.states)
        if fits and all(holds[each] for each in rule.given):
            return rule
    return None


def _conditions(step: Step, task: Task, record: e.Record) -> Mapping[Predicate, bool]:
    """Which conditions hold, by what was reported and not by what the kernel computes."""
    command, event = step.action.command, record.event
    result = command.result if isinstance(command, c.CompleteRun) else None
    limit = round_limit(step.lifecycle, task)
    error = event.error_class if isinstance(event, e.JobFailed) else None
    reason = event.reason if isinstance(event, e.JobCancelled) else None
    return {
        Predicate.IS_SUBTASK: task.parent_id is not None,
        Predicate.HAS_NO_SUBTASKS: task.subtasks == 0,
        Predicate.SUBTASKS_ARE_OPEN: task.open_subtasks > 0,
        Predicate.TIMED_OUT: error == "timeout",
        Predicate.BUDGET_EXCEEDED: error == "budget",
        Predicate.QUARANTINED: error == "lost",
        Predicate.DEPENDENCY_FAILED: reason == "dependency",
        Predicate.ROUNDS_ARE_LEFT: limit is None or step.before.rounds.get(task.id, 0) < limit,
        Predicate.RESULT_IS_FALSE: result is False,
        Predicate.IS_ACCEPTANCE: "acceptance" in step.after.world.jobs[record.stream].options,
        Predicate.HAS_CONFLICTS: result == CONFLICTING,
    }
