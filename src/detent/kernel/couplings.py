"""Couplings between tasks, jobs, runs and steps, as data: event, predicate, consequence.

`UP`: what a child's event does to its parent. `DOWN`: what a parent's event does to its child. All
consequences are in the transaction of the command, in the order of the rows.
"""

from collections import defaultdict

from detent.kernel import events as e
from detent.kernel import plan_progress
from detent.kernel import predicates as given
from detent.kernel.draft import Coupling, Couplings
from detent.kernel.transitions import (
    attempts,
    cancellation,
    provider_use,
    task_job,
    tree,
    waits,
)

#: The events that may bring a task into a state in which it has ended; its lifecycle decides.
MOVES: tuple[type[e.Event], ...] = (
    e.TaskReady,
    e.TaskCompleted,
    e.TaskFailed,
    e.TaskTimedOut,
    e.TaskBudgetExceeded,
    e.TaskCancelled,
    e.TaskBlocked,
    e.TaskAccepted,
    e.TaskRejected,
    e.TaskMoved,
)

RUN_ENDS = (e.RunSucceeded, e.RunFailed, e.RunTimedOut, e.RunCancelled)

UP: tuple[Coupling, ...] = (
    # A run, and the health of its provider.
    *(Coupling(event, provider_use.has_provider, provider_use.record_end) for event in RUN_ENDS),
    # A run, and its job and task.
    Coupling(e.RunStarted, given.has_task, task_job.start_task),
    Coupling(e.RunSucceeded, given.only_run_was_suspended, waits.let_job_wait),
    Coupling(e.RunFailed, given.attempt_is_left, attempts.retry_job_of_run),
    Coupling(e.RunFailed, given.no_attempt_is_left, attempts.fail_job_of_run),
    Coupling(e.RunTimedOut, given.attempt_is_left, attempts.retry_job_of_run),
    Coupling(e.RunTimedOut, given.no_attempt_is_left, attempts.fail_job_of_run),
    # (A run that is lost or handed back ends with its claim: see `transitions.claim_end`.)
    # A step, and its job.
    Coupling(e.StepSucceeded, plan_progress.plan_has_ended, plan_progress.end_plan),
    Coupling(e.StepFailed, plan_progress.plan_has_ended, plan_progress.end_plan),
    Coupling(e.PlanGenerated, plan_progress.all_steps_are_done, plan_progress.end_empty_plan),
    # A job, and its task or its parent job.
    Coupling(e.JobRequeued, given.task_waits_for_retry, task_job.unblock_task),
    Coupling(e.JobCompleted, given.has_task, task_job.finish_task),
    Coupling(e.JobFailed, given.has_task, task_job.fail_task),
    Coupling(e.JobCompleted, given.has_parent_job, tree.signal_parent_job),
    Coupling(e.JobFailed, given.has_parent_job, tree.signal_parent_job),
    # A task that ended, and the tasks above it.
    *(Coupling(event, given.is_an_ended_subtask, tree.count_ended_subtask) for event in MOVES),
    Coupling(e.SubtaskDone, given.was_the_last_subtask, tree.finish_parent),
    Coupling(e.SubtaskHandled, given.was_the_last_subtask, tree.finish_parent),
    Coupling(e.SubtaskDismissed, given.was_the_last_subtask, tree.finish_parent),
    # A task that ended, and the tasks that depend on it.
    *(Coupling(event, given.has_ended_with_dependents, tree.mark_dependency) for event in MOVES),
    Coupling(e.DependencyDone, given.dependencies_are_done, tree.unblock_dependent),
    Coupling(e.DependencyFailed, given.a_dependency_has_failed, tree.cancel_dependent_job),
)

DOWN: tuple[Coupling, ...] = (
    # A task, and its job.
    Coupling(e.TaskQueued, given.always, task_job.create_job),
    Coupling(e.TaskAccepting, given.always, task_job.create_acceptance_job),
    Coupling(e.TaskRetried, given.needs_a_new_job, task_job.create_job),
    Coupling(e.TaskUnblocked, given.needs_a_new_job, task_job.create_job),
    Coupling(e.TaskMoved, given.needs_a_new_job, task_job.create_job),
    Coupling(e.TaskRetried, given.keeps_its_job, task_job.requeue_job),
    Coupling(e.TaskResumed, given.always, task_job.requeue_job),
    Coupling(e.TaskUnblocked, given.keeps_its_job, waits.continue_job),
    Coupling(e.TaskAnswered, given.always, waits.deliver_answer),
    # A queued task, and what it depends on.
    Coupling(e.TaskQueued, given.a_dependency_is_open, tree.block_on_dependency),
    Coupling(e.TaskQueued, given.a_dependency_has_failed, tree.cancel_dependent_job),
    Coupling(e.TaskMoved, given.was_queued_before_dependency, tree.block_on_dependency),
    Coupling(e.TaskMoved, given.was_queued_after_failed_dependency, tree.cancel_dependent_job),
    # A task, and its subtasks.
    Coupling(e.TaskCancelRequested, given.has_subtasks, cancellation.cancel_subtasks),
    Coupling(e.TaskCancelled, given.has_subtasks, cancellation.cancel_subtasks),
    # A chosen variant, and the others.
    Coupling(e.VariantChosen, given.has_subtasks, cancellation.cancel_other_variants),
    # A job, and its plan.
    Coupling(e.JobCreated, plan_progress.options_have_a_plan, plan_progress.record_first_plan),
    Coupling(e.JobRequeued, given.was_retried_with_a_plan, plan_progress.plan_again),
    # A job, and its steps (its runs have ended by now); then, upwards, its task and parent.
    Coupling(e.JobCancelled, plan_progress.has_plan, plan_progress.abandon_steps),
    Coupling(e.JobCancelled, given.has_task, cancellation.cancel_task),
    Coupling(e.JobCancelled, given.has_parent_job, tree.signal_parent_job),
    # A job, and the jobs below it.
    Coupling(e.JobCancelRequested, given.has_child_jobs, cancellation.cancel_child_jobs),
    Coupling(e.JobCancelled, given.has_child_jobs, cancellation.cancel_child_jobs),
)


def by_event(rows: tuple[Coupling, ...]) -> Couplings:
    """Return the rows by event, in their order, as the draft uses them."""
    found: dict[type[e.Event], list[Coupling]] = defaultdict(list)
    for row in rows:
        found[row.when].append(row)
    return {event: tuple(rows) for event, rows in found.items()}


COUPLINGS: Couplings = by_event(UP + DOWN)
