"""The casts of a search: two pieces of work each, and everything that anybody may try on them.

Three workers, a keeper, a person, and an agent that works on the tree itself. A worker that
crashes is one whose lease runs out while its grant stays in its hand: it may come back at any
later moment and report. So the keeper may reclaim at any moment, and no hand is ever emptied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from detent.kernel import commands as c
from detent.kernel.entities import Job
from detent.kernel.world import World
from verification.model_search.observer import Hand

WORKERS = ("w1", "w2", "w3")
CREW = tuple(c.Actor(name) for name in WORKERS)
PERSON, KEEPER = c.Actor("person"), c.Actor("keeper")

#: Two moments are enough: now, and a time by which everything that can be due is due.
NOW_US = 1_000_000_000_000
SOON_US = NOW_US + 30_000_000
LATER_US = NOW_US + 3_600_000_000

SIGNAL, WAIT, CHECKPOINT = "go", "approval", "half"


class Action(NamedTuple):
    """Who tries what, at which moment. A worker's claim fills its hand."""

    command: c.Command
    actor: c.Actor
    now: int = NOW_US
    worker: int | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """What the runs of one piece of work may do. Small numbers keep the space small."""

    #: How often each class of failure that it may report is retried; a lost worker always may be.
    retries: Mapping[str, int] = field(default_factory=lambda: {"lost": 0})
    rate_limit: bool = False
    #: It may go to sleep once: for a wait of this kind, these signals, and until then.
    sleeps: str | None = None
    needs: tuple[str, ...] = ()
    due_at: int | None = None
    #: It wants the outcomes of its subtasks, whatever they are.
    outcomes: bool = False
    progress: bool = False
    #: How often its result may be rejected.
    max_rounds: int = 0

    @property
    def options(self) -> Mapping[str, Any]:
        """A usual policy: errors wait a second, network errors are retried immediately."""
        classes = {
            name: {"retries": self.retries[name]} for name in CLASSES if name in self.retries
        }
        if "network" in classes:
            classes["network"]["delay_ms"] = 0
        retry = {"retries": self.retries.get("error", 0), "delay_ms": 1_000, "classes": classes}
        return {"max_rounds": self.max_rounds, "retry": retry}

    def reports(self, grant: c.Grant, run_id: str) -> Iterator[c.Command]:
        """What a worker may report, whether its grant still holds or not."""
        yield c.CompleteRun(grant, run_id)
        yield c.ConfirmCancel(grant)
        yield c.HandBack(grant)
        failures = [name for name in self.retries if name not in ("lost", "timeout")]
        for name in (*failures, *(("rate_limit",) if self.rate_limit else ())):
            yield c.FailRun(grant, run_id, name, "it failed")
        if "timeout" in self.retries:
            yield c.TimeOutRun(grant, run_id)
        if self.sleeps is not None:
            detail = {"outcomes": True} if self.outcomes else {}
            yield c.SuspendRun(grant, run_id, WAIT, self.sleeps, self.needs, self.due_at, detail)
        if self.progress:
            yield c.RecordCheckpoint(grant, CHECKPOINT)


CLASSES = ("network", "timeout", "lost")


@dataclass(frozen=True, eq=False, slots=True)
class Scene:
    """A cast: how it is set up, and the role of each piece of work by the beginning of its id."""

    name: str
    setup: tuple[c.Command, ...]
    roles: Mapping[str, Role]
    #: Works on one of the two, or on a part of its tree.
    agent: c.Actor

    def role(self, job_id: str) -> Role:
        return self.roles[job_id[0]]

    def allowed(self, job_id: str) -> Mapping[str, int]:
        return self.role(job_id).retries

    def actions(self, world: World, hands: tuple[Hand | None, ...]) -> Iterator[Action]:
        """Everything that is tried in a state, whether it may be or not.

        Every action is made once: the same object is the same action.
        """
        for job in world.jobs.values():
            yield from claims(job, hands)
            yield from on_job(self, job.id, job.fence, job.task_id is None)
        for task_id in world.tasks:
            yield from on_task(task_id, self.agent)
        for worker, hand in enumerate(hands):
            if hand is not None:
                yield from reports(self, worker, hand)
                if hand.grant.fence != world.jobs[hand.grant.job_id].fence:
                    yield from late(worker, hand)


def claims(job: Job, hands: tuple[Hand | None, ...]) -> Iterator[Action]:
    """By each worker; of several idle workers only the first."""
    for worker, hand in enumerate(hands):
        if hand is None and None in hands[:worker]:
            continue
        yield claim(job.id, job.fence, worker, NOW_US)
        if job.state == "retrying":
            yield claim(job.id, job.fence, worker, LATER_US)


@cache
def claim(job_id: str, fence: int, worker: int, now: int) -> Action:
    command = c.ClaimJob(job_id, WORKERS[worker], f"nonce {fence + 1}")
    return Action(command, CREW[worker], now, worker)


@cache
def on_job(scene: Scene, job_id: str, fence: int, alone: bool) -> tuple[Action, ...]:
    """What is tried on a job; work that has a task is cancelled and retried through it."""
    due = (c.RequeueJob(job_id), c.WakeJob(job_id, WAIT))
    actions = [Action(command, KEEPER, now) for command in due for now in (NOW_US, LATER_US)]
    actions.append(Action(c.ReclaimJob(job_id, fence), KEEPER))
    if SIGNAL in scene.role(job_id).needs:
        actions.append(Action(c.SendSignal(job_id, SIGNAL), PERSON))
    if alone:
        actions.append(Action(c.CancelJob(job_id), PERSON))
        actions += (Action(c.RetryJob(job_id), actor) for actor in (PERSON, scene.agent))
    return tuple(actions)


@cache
def on_task(task_id: str, agent: c.Actor) -> tuple[Action, ...]:
    asked = (
        c.QueueTask(task_id),
        c.AcceptTask(task_id),
        c.RejectTask(task_id),
        c.AnswerTask(task_id, "yes"),
        c.RetryTask(task_id),
        c.ResumeTask(task_id),
        c.UnblockTask(task_id),
        c.DismissSubtask(task_id),
    )
    return (
        *(Action(command, actor) for command in asked for actor in (PERSON, agent)),
        Action(c.CancelTask(task_id), PERSON),
        *(Action(c.CheckTask(task_id), KEEPER, now) for now in (NOW_US, LATER_US)),
    )


@cache
def reports(scene: Scene, worker: int, hand: Hand) -> tuple[Action, ...]:
    role = scene.role(hand.grant.job_id)
    return tuple(Action(command, CREW[worker]) for command in role.reports(*hand))


@cache
def late(worker: int, hand: Hand) -> tuple[Action, ...]:
    """Every other kind of report from a stale grant, and a keeper that acts on an old look."""
    grant, run_id = hand
    commands: tuple[c.Command, ...] = (
        c.RecordCheckpoint(grant, "late"),
        c.BeginEffect(grant, "late", "ask"),
        c.SuspendRun(grant, run_id, "late", "question"),
        c.RequestPermission(grant, run_id, "late"),
        c.TimeOutRun(grant, run_id),
        c.FailRun(grant, run_id, "error", "late"),
        c.ChargeRun(grant, run_id, 1),
        c.ReserveFunds(grant, run_id),
        c.ReportProgress(grant, run_id, 0.5),
        c.AddEvidence(grant, run_id, "late.txt", "text", "0" * 64, 1),
        c.OpenSession(grant, "late"),
        c.RecordPlan(grant, {"steps": [{"name": "late", "intent": "late"}]}),
        c.FailPlan(grant, "error", "late"),
        c.StartStep(grant, "late"),
        c.RestPlan(grant),
    )
    looked = Action(c.ReclaimJob(grant.job_id, grant.fence), KEEPER)
    return (*(Action(command, CREW[worker]) for command in commands), looked)


# ---- the scenes ------------------------------------------------------------------------------

LEAN = Role()


def _task(task_id: str, lifecycle: str, role: Role, **more: Any) -> c.SubmitTask:
    given = {"queue": True, **more}
    return c.SubmitTask(task_id, "search", lifecycle, "build", "cli", options=role.options, **given)


def _job(job_id: str, role: Role, **more: Any) -> c.SubmitJob:
    return c.SubmitJob(job_id, "search", "build", options=role.options, **more)


def _agent_of(root: str) -> c.Actor:
    return c.Actor("agent", root)


def _alone_beside_review() -> Scene:
    alone = Role(sleeps="signal", needs=(SIGNAL,), due_at=SOON_US)
    judged = Role({"timeout": 0, "lost": 0})
    setup = (_job("a", alone), _task("r", "review", judged, queue=False))
    roles = {"a": alone, "r": judged}
    return Scene("a job alone beside a review", setup, roles, _agent_of("r"))


def _question() -> Scene:
    asks = Role({"error": 0, "lost": 0}, sleeps="question", max_rounds=1)
    setup = (_task("r", "review", asks), _job("a", LEAN))
    roles = {"r": asks, "a": LEAN}
    return Scene("a review that asks, beside a job alone", setup, roles, _agent_of("r"))


def _dependency() -> Scene:
    first = Role(
        {"error": 1, "network": 1, "lost": 1},
        rate_limit=True,
        sleeps="timer",
        due_at=SOON_US,
        progress=True,
    )
    setup = (_task("b", "board", first), _task("d", "board", LEAN, depends_on=("b",)))
    roles = {"b": first, "d": LEAN}
    return Scene("a board task that waits for another", setup, roles, _agent_of("b"))


def _subtask() -> Scene:
    twice = Role(max_rounds=1)
    setup = (_task("r", "review", twice), _task("s", "review", LEAN, parent_id="r"))
    return Scene("a review with a subtask", setup, {"r": twice, "s": LEAN}, _agent_of("r"))


def _handled() -> Scene:
    parent = Role(sleeps="subtasks", needs=("task:s",), outcomes=True)
    setup = (_task("b", "board", parent), _task("s", "board", LEAN, parent_id="b"))
    return Scene(
        "a board task that handles its subtask", setup, {"b": parent, "s": LEAN}, _agent_of("b")
    )


def _child() -> Scene:
    parent = Role({"lost": 1}, sleeps="signal", needs=("job:k",))
    setup = (_job("a", parent), _job("k", LEAN, parent_job_id="a"))
    roles = {"a": parent, "k": LEAN}
    return Scene("a job that waits for its child", setup, roles, _agent_of("a"))


SCENES: tuple[Scene, ...] = (
    _alone_beside_review(),
    _question(),
    _dependency(),
    _subtask(),
    _child(),
    _handled(),
)
