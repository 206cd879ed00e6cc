"""What is searched: a task alone, with a plan, with a subtask, and one that depends on another.

Every action that can be taken in a state is tried. A worker that crashes is one whose job the
keeper takes back. An action that depends on a time is taken when it is due.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from detent.kernel import commands as c
from detent.kernel.acceptance import CONFLICTS, OnAccept, is_acceptance
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.retention import Ending
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Phase, Predicate, TaskLifecycle
from detent.kernel.world import CHECKPOINTS, WAITS, World
from detent.lifecycle_search.plan_reports import PLAN, plan_reports
from detent.lifecycle_search.search_state import SearchState, job_of

PERSON, WORKER, KEEPER = c.Actor("person"), c.Actor("worker"), c.Actor("keeper")
START_US = 1_000_000_000_000
#: The result of an acceptance that could not be merged.
CONFLICTING = {CONFLICTS: ["file"]}
WAIT, WAIT_US = "question", 30_000_000
JOB_TIMEOUT_MS = 86_400_000
#: The limit of rounds in the search, if the lifecycle has none or a higher one.
MAX_ROUNDS = 2
#: What a person may be refused although the table has a row.
FAIR = frozenset({"rounds_used", "open_question", "dependency_open", "dependency_failed"})


class Action(NamedTuple):
    """A command, in words too. A refusal is an error unless its code is in `fair`."""

    text: str
    command: c.Command
    actor: c.Actor
    at: int
    fair: frozenset[str] = frozenset()
    #: It gives the work up: a state from which only this leads to an end is a dead end.
    gives_up: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """Tasks of one lifecycle, and everything that can be done with them."""

    name: str
    lifecycle: TaskLifecycle
    setup: tuple[c.SubmitTask, ...]

    def actions(self, state: SearchState) -> Iterator[Action]:
        """Everything that can be done in a state."""
        for task in state.world.tasks.values():
            job = job_of(state.world, task)
            yield from self._of_person(state, task)
            yield from self._of_timers(state, task)
            if job is not None and job.state not in ENDED_JOB:
                yield from self._of_job(state, task, job)

    # ---- people ------------------------------------------------------------------------------

    def _of_person(self, state: SearchState, task: Task) -> Iterator[Action]:
        for text, command in self._commands(state.world, task):
            yield Action(f"person: {text}{self._of(task)}", command, PERSON, state.now, FAIR)
        for row in self.lifecycle.rows:
            if row.source == task.state and row.event not in TASK_EVENTS:
                for sender in row.people[:1]:
                    sent = c.SendEvent(task.id, row.event)
                    text = f"{sender}: send {row.event}{self._of(task)}"
                    yield Action(text, sent, c.Actor(sender), state.now, FAIR)
        if self.lifecycle.by_state[task.state].ending is None or self._may(task, "task_cancelled"):
            text = f"person: cancel the task{self._of(task)}"
            yield Action(text, c.CancelTask(task.id), PERSON, state.now, gives_up=True)

    def _commands(self, world: World, task: Task) -> Iterator[tuple[str, c.Command]]:
        if self._may(task, "task_queued"):
            yield "run the task", c.QueueTask(task.id)
        if self._may(task, "task_retried"):
            yield "retry the task", c.RetryTask(task.id)
        if self._may(task, "task_resumed"):
            yield "resume the task", c.ResumeTask(task.id)
        if self._may(task, "task_accepted"):
            yield "accept the result", c.AcceptTask(task.id, without_action=True)
        if self._may(task, "task_accepting"):
            yield "accept the result with its action", c.AcceptTask(task.id)
        if self._may(task, "task_rejected") and self._sent_by_person(task, "task_rejected"):
            yield "reject the result", c.RejectTask(task.id)
        if self.lifecycle.phase(task.state) is Phase.BLOCKED:
            yield "unblock the task", c.UnblockTask(task.id)
        if task.job_id is not None and world.parts_of(WAITS, task.job_id):
            yield "answer the question", c.AnswerTask(task.id, "yes")
        if self._is_unsettled_failure(world, task):
            yield "dismiss the subtask", c.DismissSubtask(task.id)

    def _may(self, task: Task, event: str) -> bool:
        return (task.state, event) in self.lifecycle.move

    def _sent_by_person(self, task: Task, event: str) -> bool:
        rows = (
            row for row in self.lifecycle.rows if (row.source, row.event) == (task.state, event)
        )
        return any(row.people for row in rows)

    def _is_unsettled_failure(self, world: World, task: Task) -> bool:
        if task.parent_id is None or task.id in world.tasks[task.parent_id].settled:
            return False
        ending = self.lifecycle.ending(task.state, task.retries_left)
        return ending in (Ending.FAILED, Ending.CANCELLED)

    # ---- the keeper --------------------------------------------------------------------------

    def _of_timers(self, state: SearchState, task: Task) -> Iterator[Action]:
        for timer in self.lifecycle.timers:
            if timer.state == task.state:
                text = f"keeper: the timer of {timer.state} sends {timer.event}{self._of(task)}"
                due = max(state.now, task.state_at + timer.after_us)
                yield Action(text, c.FireTimer(task.id, task.state), KEEPER, due)

    # ---- workers, and the keeper for jobs ----------------------------------------------------

    def _of_job(self, state: SearchState, task: Task, job: Job) -> Iterator[Action]:
        of = self._of(task)
        if job.state == "queued" and task.open_dependencies == 0:
            claim = c.ClaimJob(job.id, WORKER.name, f"nonce {job.fence + 1}")
            yield Action(f"worker: claim the job{of}", claim, WORKER, state.now)
        elif job.state == "retrying":
            due = max(state.now, job.not_before)
            yield Action(f"keeper: queue the retry{of}", c.RequeueJob(job.id), KEEPER, due)
        elif job.state == "running":
            planned = job.plan_version > 0
            reports = plan_reports(state.world, job, state.now) if planned else None
            for text, command in reports or self._reports(state, job):
                yield Action(f"worker: {text}{of}", command, WORKER, state.now)
            lost = c.ReclaimJob(job.id, job.fence)
            yield Action(f"keeper: the worker is lost{of}", lost, KEEPER, state.now)
        for wait in state.world.parts_of(WAITS, job.id).values():
            due = max(state.now, wait.due_at or 0)
            yield Action(f"keeper: the wait is over{of}", c.WakeJob(job.id, wait.name), KEEPER, due)
        if job.job_deadline is not None:
            due = max(state.now, job.job_deadline)
            expire = c.ExpireJob(job.id, "job")
            yield Action(f"keeper: the job timed out{of}", expire, KEEPER, due, gives_up=True)

    def _reports(self, state: SearchState, job: Job) -> Iterator[tuple[str, c.Command]]:
        grant = c.Grant(job.id, job.fence, job.nonce or "")
        run_id = job.run_id or ""
        yield "complete the run", c.CompleteRun(grant, run_id, True)
        if any(Predicate.RESULT_IS_FALSE in rule.given for rule in self.lifecycle.rules):
            yield "complete the run with the result false", c.CompleteRun(grant, run_id, False)
        if is_acceptance(job):
            yield "complete the run with conflicts", c.CompleteRun(grant, run_id, CONFLICTING)
        yield "fail the run", c.FailRun(grant, run_id, "error", "failed")
        if job.cancel_reason is not None:
            yield "confirm the cancel", c.ConfirmCancel(grant)
        yield "fail the run by a network error", c.FailRun(grant, run_id, "network", "failed")
        yield "fail the run by its budget", c.FailRun(grant, run_id, "budget", "failed")
        yield "time out the run", c.TimeOutRun(grant, run_id)
        yield "hand the job back", c.HandBack(grant)
        if state.world.part(CHECKPOINTS, job.id, WAIT) is None:
            due = state.now + WAIT_US
            yield "ask a question", c.SuspendRun(grant, run_id, WAIT, "question", due_at=due)

    def _of(self, task: Task) -> str:
        return "" if len(self.setup) == 1 else f" of {task.id}"


def scenarios(lifecycle: TaskLifecycle) -> Iterator[Scenario]:
    """The scenarios of a lifecycle, the smallest first.

    Only a task alone has retries and more than one round: they multiply the states of the others.
    """
    yield Scenario("a task", lifecycle, (_task(lifecycle, "task", 1, MAX_ROUNDS),))
    planned = _task(lifecycle, "task")
    planned = replace(planned, options={**planned.options, "plan": PLAN})
    yield Scenario("a task with a plan", lifecycle, (planned,))
    if (lifecycle.initial, "task_queued") in lifecycle.move:  # else no subtask can be created
        below = _task(lifecycle, "subtask", parent_id="parent")
        yield Scenario("a task with a subtask", lifecycle, (_task(lifecycle, "parent"), below))
    after = _task(lifecycle, "dependent", depends_on=("first",))
    setup = (_task(lifecycle, "first"), after)
    yield Scenario("a task that depends on another", lifecycle, setup)


def _task(
    lifecycle: TaskLifecycle, task_id: str, retries: int = 0, rounds: int = 1, **more: Any
) -> c.SubmitTask:
    options = {
        **_options(retries),
        **_round_limit(lifecycle, rounds),
        **_action(lifecycle),
    }
    return c.SubmitTask(task_id, "search", lifecycle.id, "work", "search", options=options, **more)


def _options(retries: int) -> Mapping[str, Any]:
    """Errors wait for their retry, network errors are retried immediately."""
    classes = {
        "network": {"retries": retries, "delay_ms": 0},
        "timeout": {"retries": 0},
        "lost": {"retries": retries},
    }
    retry = {"retries": retries, "delay_ms": 1_000, "classes": classes}
    return {"retry": retry, "job_timeout_ms": JOB_TIMEOUT_MS}


def _action(lifecycle: TaskLifecycle) -> Mapping[str, Any]:
    """An action for acceptances, if the lifecycle has them."""
    return {"on_accept": OnAccept.MERGE.value} if "task_accepting" in lifecycle.targets else {}


def _round_limit(lifecycle: TaskLifecycle, most: int) -> Mapping[str, Any]:
    limit = lifecycle.rounds.limit
    return {} if limit is not None and limit <= most else {"max_rounds": most}
