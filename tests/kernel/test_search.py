"""The exhaustive search: every promise in every reachable state, and every broken kernel found."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel import predicates
from detent.kernel.couplings import COUPLINGS
from detent.kernel.decide import (
    HANDLERS,
    control,
    decide,
    guards,
    plans,
    review,
    timers,
    worker_reports,
)
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Task
from detent.kernel.evolve.table import CHANGES
from detent.kernel.invariants import offences
from detent.kernel.transitions import settlement, task_job, waits
from detent.task_lifecycles import all_lifecycles
from verification.model_search.promises import Broken
from verification.model_search.scenarios import SCENES, Action, Scene
from verification.model_search.search import Outcome, State, attempt, beginning, key, search

LIFECYCLES = all_lifecycles()

REVIEWED, ASKED, DEPENDING, SUBTASK, CHILD, HANDLED = SCENES
#: A search that sees much less than it did is a broken search, not a better kernel.
FLOORS = {
    REVIEWED: 3_300,
    ASKED: 5_000,
    DEPENDING: 4_000,
    SUBTASK: 7_000,
    CHILD: 3_500,
    HANDLED: 12_000,
}
#: What a refusal may say; anything else is a mistake in a scene or a hole in the kernel.
REFUSALS = {
    *("illegal_transition", "not_due", "not_claimable", "own_work", "stale_fence", "job_ended"),
    *("no_question", "open_question", "not_cancelling", "name_used_twice", "rounds_used"),
    *("dependency_open", "dependency_failed", "not_dismissible"),
}
NO_WAIT = frozenset({"queued", "running", "completed", "failed", "cancelled"})
JOB_STATES = {
    REVIEWED: NO_WAIT | {"waiting"},
    ASKED: NO_WAIT | {"parked"},
    DEPENDING: NO_WAIT | {"waiting", "retrying"},
    SUBTASK: NO_WAIT,
    CHILD: NO_WAIT | {"parked"},
    HANDLED: NO_WAIT | {"parked"},
}
JUDGED = {("review", state) for state in ("queued", "running", "ready", "completed", "cancelled")}
TASK_STATES: dict[Scene, set[tuple[str, str]]] = {
    REVIEWED: JUDGED | {("review", state) for state in ("pending", "failed", "timed_out")},
    ASKED: JUDGED | {("review", state) for state in ("pending", "blocked", "failed")},
    DEPENDING: {("board", state) for state in ("todo", "doing", "blocked", "done", "cancelled")},
    SUBTASK: JUDGED | {("review", state) for state in ("pending", "blocked", "failed")},
    CHILD: set(),
    HANDLED: {("board", state) for state in ("todo", "doing", "blocked", "done", "cancelled")},
}
BY_WORKERS = {"ClaimJob", "CompleteRun", "HandBack", "ConfirmCancel", "ReclaimJob"}
TAKEN = {
    REVIEWED: {"AcceptTask", "ResumeTask", "TimeOutRun", "WakeJob", "SendSignal"},
    ASKED: {"AnswerTask", "AcceptTask", "RejectTask", "RetryTask", "FailRun", "RetryJob"},
    DEPENDING: {"FailRun", "RequeueJob", "WakeJob", "RecordCheckpoint", "UnblockTask"},
    SUBTASK: {"AcceptTask", "RejectTask", "QueueTask", "CancelTask", "DismissSubtask"},
    CHILD: {"SuspendRun", "CancelJob", "RetryJob"},
    HANDLED: {"SuspendRun", "CancelTask", "DismissSubtask", "RetryTask"},
}


by_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


def summary(outcome: Outcome) -> str:
    return "\n".join(outcome.lines())


@by_scene
def test_every_promise_holds_in_every_reachable_state(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = search(scene)
    with capsys.disabled():
        print(f"\n  {summary(outcome)}")  # noqa: T201 - the size of the search is its result
    assert outcome.counterexample is None, summary(outcome)
    assert outcome.states >= FLOORS[scene]
    assert set(outcome.refused) <= REFUSALS
    assert outcome.job_states == JOB_STATES[scene]
    assert outcome.task_states == TASK_STATES[scene]
    assert set(outcome.accepted) >= BY_WORKERS | TAKEN[scene]
    assert set(outcome.stale) == {kind.__name__ for kind in c.Report.__subclasses__()}


def test_the_scenes_reach_every_state_of_a_task_that_needs_no_money() -> None:
    lifecycles = (LIFECYCLES["board"], LIFECYCLES["review"])
    every = {(each.name, state) for each in lifecycles for state in each.state_names}
    assert every - set().union(*TASK_STATES.values()) == {
        ("board", "inbox"),
        ("review", "budget_exceeded"),
    }


# ---- broken kernels --------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def unfenced(patch: Patch) -> None:
    """Any grant of a job will do."""

    def held(draft: Draft, grant: c.Grant) -> Job:
        job = draft.job(grant.job_id)
        if job.state != "running":
            raise Refused("it does not run", code="stale_fence")
        return job

    for module in (guards, worker_reports, plans):
        patch.setattr(module, "held", held)


def ungoverned(patch: Patch, lifecycle: str, source: str, event: str, target: str) -> None:
    """One more row in a table."""
    patch.setitem(LIFECYCLES[lifecycle].move, (source, event), target)


def reclaims_waiting_work(patch: Patch) -> None:
    """A lease is thought to be lost wherever no worker is seen to hold it."""

    def reclaim(draft: Draft, command: c.ReclaimJob) -> str:
        if draft.job(command.job_id).state in ("waiting", "parked"):
            draft.emit(command.job_id, e.JobRequeued("lost"))
            return "queued"
        return timers.reclaim_job(draft, command)

    for state in ("waiting", "parked"):
        ungoverned(patch, "job", state, "job_requeued", "queued")
    patch.setitem(HANDLERS, c.ReclaimJob, reclaim)


def cancels_what_has_ended(patch: Patch) -> None:
    ungoverned(patch, "job", "completed", "job_cancelled", "cancelled")


def cancels_an_accepted_task(patch: Patch) -> None:
    ungoverned(patch, "review", "completed", "task_cancelled", "cancelled")


def changed(patch: Patch, kind: type[e.Event], forget: Callable[[Job], dict[str, Any]]) -> None:
    """An event that does all but one thing to its job."""
    change = CHANGES[kind]

    def partly(job: Job, event: e.Event, at: int, state: str) -> Job:
        done: Job = change(job, event, at, state)
        return done._replace(**forget(job))

    patch.setitem(CHANGES, kind, partly)


def counts_no_attempts(patch: Patch) -> None:
    changed(patch, e.JobRunning, lambda job: {"attempt": job.attempt})


def counts_no_losses(patch: Patch) -> None:
    changed(patch, e.JobRequeued, lambda job: {"lost": job.lost})


def counts_no_failures(patch: Patch) -> None:
    changed(patch, e.JobRetrying, lambda job: {"failures": job.failures})


def forgets_that_it_goes_on(patch: Patch) -> None:
    changed(patch, e.WaitCompleted, lambda job: {"resuming": False})


def approves_itself(patch: Patch) -> None:
    def anybody(draft: Draft, work: Task | Job, what: str) -> None:
        return None

    patch.setattr(review, "not_its_own", anybody)


def claims_what_runs(patch: Patch) -> None:
    """A claim that does not look whether a worker holds the job."""

    def claim(draft: Draft, command: c.ClaimJob) -> c.Grant | None:
        job = draft.job(command.job_id)
        if job.state == "running":
            taken = e.JobRunning(command.worker, command.nonce, job.fence + 1, job.attempt + 1)
            draft.emit(job.id, taken)
            return c.Grant(job.id, job.fence + 1, command.nonce)
        return worker_reports.claim_job(draft, command)

    ungoverned(patch, "job", "running", "job_running", "running")
    patch.setitem(HANDLERS, c.ClaimJob, claim)


def reuses_fences(patch: Patch) -> None:
    changed(patch, e.JobRunning, lambda job: {"fence": 0})


def forgets_a_cancel(patch: Patch) -> None:
    """A failure or a sleep after a cancel goes on as if no cancel had been requested."""
    patch.setattr(predicates, "moves_job", lambda draft, record: True)


def writes_beside_the_log(patch: Patch) -> None:
    """A row that changes without an event."""

    def check(draft: Draft, command: c.CheckTask) -> bool:
        task = draft.task(command.task_id)
        draft.tasks[task.id] = task._replace(comment="seen")
        return False

    patch.setitem(HANDLERS, c.CheckTask, check)


def hangs_on_the_last_retry(patch: Patch) -> None:
    """A refusal of what a worker must be able to say."""

    def fail(draft: Draft, command: c.FailRun) -> str:
        if draft.job(command.grant.job_id).failures:
            raise Refused("not now", code="illegal_transition")
        return worker_reports.fail_run(draft, command)

    patch.setitem(HANDLERS, c.FailRun, fail)


def dismisses_live_subtasks(patch: Patch) -> None:
    """A subtask is dismissed whatever it does."""

    def dismiss(draft: Draft, command: c.DismissSubtask) -> str:
        task = draft.task(command.task_id)
        if task.state in ("done", "completed") or task.parent_id is None:
            return control.dismiss_subtask(draft, command)
        for parent in draft.ancestors(task):
            if task.id not in parent.settled:
                draft.emit(parent.id, e.SubtaskDismissed(task.id, task.state))
        return "dismissed"

    patch.setitem(HANDLERS, c.DismissSubtask, dismiss)


def settles_without_an_event(patch: Patch) -> None:
    """A dismissal changes the row of the parent, and nothing says so."""

    def settle(draft: Draft, task: Task, reason: str | None) -> bool:
        for each in draft.ancestors(task):
            settled = (*each.settled, task.id)
            draft.tasks[each.id] = each._replace(
                open_subtasks=each.open_subtasks - 1, settled=settled
            )
        return True

    patch.setattr(settlement, "dismiss", settle)


def completes_over_a_failed_subtask(patch: Patch) -> None:
    """A subtask that failed counts as settled, although no person or handler has settled it."""

    def counted(task: Task, event: e.SubtaskFailed, at: int, state: str) -> Task:
        return task._replace(open_subtasks=task.open_subtasks - 1, failed_subtask=event.task_id)

    patch.setitem(CHANGES, e.SubtaskFailed, counted)


def forgets_what_was_handled(patch: Patch) -> None:
    """A handler receives a failure as an outcome, and its task waits for that subtask anyway."""
    patch.setattr(waits, "settle_handled", lambda draft, wait: None)


def leaves_a_board_parent_in_work(patch: Patch) -> None:
    """The job of a board task has completed, and the task stays in work for its subtasks."""

    def finish(draft: Draft, record: e.Record) -> None:
        task = draft.task(draft.job(record.stream).task_id or "")
        if task.lifecycle == "review" or task.open_subtasks == 0:
            task_job.finish_task(draft, record)

    rows = [
        row._replace(then=finish) if row.then is task_job.finish_task else row
        for row in COUPLINGS[e.JobCompleted]
    ]
    patch.setitem(COUPLINGS, e.JobCompleted, tuple(rows))


VARIANTS: list[tuple[Callable[[Patch], None], Scene, str]] = [
    (unfenced, REVIEWED, "P5"),
    (reclaims_waiting_work, REVIEWED, "P10"),
    (reclaims_waiting_work, ASKED, "P10"),
    (cancels_what_has_ended, REVIEWED, "P9"),
    (cancels_an_accepted_task, REVIEWED, "P9"),
    (counts_no_attempts, REVIEWED, "P13"),
    (counts_no_losses, CHILD, "P13"),
    (counts_no_failures, DEPENDING, "P13"),
    (forgets_that_it_goes_on, CHILD, "P13"),
    (approves_itself, REVIEWED, "P12"),
    (approves_itself, SUBTASK, "P12"),
    (claims_what_runs, ASKED, "P4"),
    (reuses_fences, ASKED, "P4"),
    (forgets_a_cancel, ASKED, "P11"),
    (writes_beside_the_log, SUBTASK, "P8"),
    (hangs_on_the_last_retry, DEPENDING, "P5"),
    (dismisses_live_subtasks, SUBTASK, "settled"),
    (dismisses_live_subtasks, HANDLED, "settled"),
    (settles_without_an_event, SUBTASK, "P8"),
    (completes_over_a_failed_subtask, SUBTASK, "settled"),
    (completes_over_a_failed_subtask, HANDLED, "settled"),
    (forgets_what_was_handled, HANDLED, "settled"),
    (leaves_a_board_parent_in_work, HANDLED, "levels"),
]


@pytest.mark.parametrize(
    ("variant", "scene", "promise"),
    VARIANTS,
    ids=[f"{variant.__name__}-{scene.name}" for variant, scene, _ in VARIANTS],
)
def test_a_broken_kernel_is_found(
    variant: Callable[[Patch], None],
    scene: Scene,
    promise: str,
    monkeypatch: Patch,
) -> None:
    variant(monkeypatch)
    outcome = search(scene)
    print(summary(outcome))  # noqa: T201 - shown by pytest -rP: the path that leads there
    found = outcome.counterexample
    assert found is not None
    assert found.promise == promise
    assert replayed(scene, found.path) == Broken(found.promise, found.what)


def replayed(scene: Scene, path: tuple[Action, ...]) -> Broken | None:
    """The path's commands one after another: only the last one breaks something."""
    state, outcome = beginning(scene), Outcome(scene.name)
    for action in path[:-1]:
        after = attempt(scene, state, action, outcome)
        assert isinstance(after, State)
        state = after
    last = attempt(scene, state, path[-1], outcome)
    return last if isinstance(last, Broken) else None


# ---- the search itself -----------------------------------------------------------------------


def successors(scene: Scene, state: State) -> set[Any]:
    outcome = Outcome(scene.name)
    tried = [attempt(scene, state, each, outcome) for each in scene.actions(*state[:2])]
    return {key(after) for after in tried if isinstance(after, State)}


@by_scene
def test_states_that_count_as_one_lead_to_the_same_states(scene: Scene) -> None:
    """What the key leaves out decides nothing: else parts of the space would never be seen."""
    chance = Random(scene.name)
    first_seen: dict[Any, State] = {}
    twins = 0
    while twins < 200:
        state = beginning(scene)
        for _ in range(30):
            taken = step(scene, state, chance.randrange(1_000))
            if taken is None:
                break
            _, state = taken
            twin = first_seen.setdefault(key(state), state)
            if twin is not state and chance.random() < 0.2:
                twins += 1
                assert successors(scene, twin) == successors(scene, state)


def step(scene: Scene, state: State, choice: int) -> tuple[Action, State] | None:
    """The first action that changes anything, counted from a chosen one."""
    actions = list(scene.actions(state.world, state.hands))
    start = choice % len(actions)
    for action in (*actions[start:], *actions[:start]):
        after = attempt(scene, state, action, Outcome(scene.name))
        if isinstance(after, State):
            return action, after
    return None


@settings(max_examples=60)
@given(st.sampled_from(SCENES), st.lists(st.integers(0, 1_000), max_size=25))
def test_the_log_of_every_walk_keeps_the_invariants(scene: Scene, choices: list[int]) -> None:
    state = beginning(scene)
    streams: dict[str, list[e.Record]] = {}
    for choice in choices:
        taken = step(scene, state, choice)
        if taken is None:
            break
        action, after = taken
        for record in decide(state.world, action.command, action.now, action.actor).records:
            streams.setdefault(record.stream, []).append(record)
        state = after
        for job in state.world.jobs.values():
            assert offences(streams.get(job.id, []), job) == []
