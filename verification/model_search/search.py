"""An exhaustive search over the real kernel: every order in which a small cast can act.

Breadth first over `decide` and `evolve`, with nothing simulated but the hands that hold grants.
In every state everything is tried; every accepted step is held against the promises. The first
step that breaks one ends the search, with the shortest path of commands that leads to it. Many
states differ only in the hands, which the kernel does not see: an action that was tried in one of
them has the same result in the others.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Task
from detent.kernel.world import CHECKPOINTS, SIGNALS, WAITS, World
from detent.lifecycle_search.search_state import world_after
from detent.lifecycle_search.trail import Trail
from detent.task_lifecycles import SHIPPED
from verification.model_search.observer import Hand, Witness, keep
from verification.model_search.promises import Broken, Step, broken, wrongly_refused
from verification.model_search.scenarios import LATER_US, PERSON, WORKERS, Action, Scene

Hands = tuple[Hand | None, ...]


class State(NamedTuple):
    """A state of the search: the kernel's world, the workers' hands, the onlooker's witnesses."""

    world: World
    hands: Hands
    witnesses: Mapping[str, Witness]


#: By what the kernel sees of a state, and by the identity of an action: the state after it; None if
#: it was refused or changed nothing.
Tried = dict[tuple[Any, ...], dict[int, State | None]]


class Counterexample(NamedTuple):
    """A broken promise, and the commands that lead to it from the scene's beginning."""

    promise: str
    what: str
    path: tuple[Action, ...]

    def lines(self) -> list[str]:
        steps = [
            f"{number:3}. {each.actor.name}: {each.command}"
            for number, each in enumerate(self.path, start=1)
        ]
        return [f"{self.promise} is broken: {self.what}", *steps]


@dataclass(slots=True)
class Outcome:
    """What a search saw: how much, how deep, what was done and what was refused."""

    scene: str
    states: int = 0
    depth: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    #: Refusals by error code, and those of reports from a stale hand by kind of report.
    refused: Counter[str] = field(default_factory=Counter)
    stale: Counter[str] = field(default_factory=Counter)
    #: Actions whose result was known from a state that the kernel cannot tell from this one.
    repeated: int = 0
    job_states: set[str] = field(default_factory=set)
    task_states: set[tuple[str, str]] = field(default_factory=set)
    counterexample: Counterexample | None = None

    def lines(self) -> list[str]:
        taken, refused = sum(self.accepted.values()), sum(self.refused.values())
        size = f"{self.states} states, {self.depth} deep, {taken} commands taken, {refused} refused"
        size += f", {self.repeated} known"
        steps = [] if self.counterexample is None else self.counterexample.lines()
        return [f"{self.scene}: {size}", *steps]


def search(scene: Scene, max_states: int | None = None) -> Outcome:
    """Visit every state that the scene can reach, nearest first, or up to a maximum number."""
    outcome = Outcome(scene.name)
    first = beginning(scene)
    trail: Trail[Action] = Trail(key(first))
    tried: Tried = {}
    level = [(0, first)]
    while level and outcome.counterexample is None:
        outcome.depth += 1
        level = _next_level(scene, level, trail, tried, outcome)
        if max_states is not None and outcome.states >= max_states:
            break
    return outcome


def _next_level(
    scene: Scene,
    level: list[tuple[int, State]],
    trail: Trail[Action],
    tried: Tried,
    outcome: Outcome,
) -> list[tuple[int, State]]:
    """Everything that one more step leads to for the first time."""
    below = []
    for number, state in level:
        _look(outcome, state.world)
        known = tried.setdefault(_without_hands(state), {})
        for action in scene.actions(state.world, state.hands):
            if id(action) in known:
                outcome.repeated += 1
                after = _repeated(state, action, known[id(action)])
            else:
                result = attempt(scene, state, action, outcome)
                if isinstance(result, Broken):
                    path = (*trail.path(number), action)
                    outcome.counterexample = Counterexample(*result, path)
                    return []
                after = known[id(action)] = result
            entered = None if after is None else trail.enter(key(after), number, action)
            if after is not None and entered is not None:
                below.append((entered, after))
    return below


def _repeated(state: State, action: Action, after: State | None) -> State | None:
    """The state after an action, from its result in a state with other hands."""
    if after is None:
        return None
    hands = list(state.hands)
    if action.worker is not None:
        hands[action.worker] = after.hands[action.worker]
    return State(after.world, tuple(hands), after.witnesses)


def _look(outcome: Outcome, world: World) -> None:
    outcome.states += 1
    outcome.job_states.update(job.state for job in world.jobs.values())
    outcome.task_states.update((task.lifecycle, task.state) for task in world.tasks.values())


def beginning(scene: Scene) -> State:
    """The scene set up, with empty hands."""
    world = World(lifecycles=SHIPPED)
    witnesses: Mapping[str, Witness] = {}
    for command in scene.setup:
        draft = decide(world, command, 0, PERSON)
        world.merge(draft, draft.records)
        witnesses = keep(witnesses, command, draft.records)
    return State(world, (None,) * len(WORKERS), witnesses)


def attempt(scene: Scene, state: State, action: Action, outcome: Outcome) -> State | Broken | None:
    """Try one action: the state after it, None if it changed nothing, or the promise it breaks."""
    try:
        draft = decide(state.world, action.command, action.now, action.actor)
    except DetentError as error:
        outcome.refused[error.code] += 1
        if error.code == "stale_fence":
            outcome.stale[type(action.command).__name__] += 1
        due = action.now == LATER_US
        return wrongly_refused(state.world, state.witnesses, action.command, due, error)
    outcome.accepted[type(action.command).__name__] += 1
    if not folds(state.world, draft):
        return Broken("P8", f"the fold of its events is not the row: {action.command}")
    after = follow(state, action, draft) if draft.records else state
    step = Step(
        state.world,
        state.witnesses,
        action.command,
        action.actor,
        draft.records,
        draft.answer,
        after.world,
        after.witnesses,
        scene.allowed,
    )
    return broken(step) or (None if after is state else after)


def folds(world: World, draft: Draft) -> bool:
    """Whether the events alone, applied one by one, give the rows that the decision came to."""
    folded = World(world)
    for record in draft.records:
        folded.apply(record)
    return all(getattr(folded, name) == getattr(draft, name) for name in CHANGED)


#: What a command changes in the world under it.
CHANGED = ("tasks", "jobs", "parts", "plans", "usage", "gone")


def follow(state: State, action: Action, draft: Draft) -> State:
    world = world_after(state.world, draft)
    hands = state.hands
    if isinstance(draft.answer, c.Grant) and action.worker is not None:
        run_id = world.jobs[draft.answer.job_id].run_id or ""
        filled = list(hands)
        filled[action.worker] = Hand(draft.answer, run_id)
        hands = tuple(filled)
    return State(world, hands, keep(state.witnesses, action.command, draft.records))


# ---- when two states are one -----------------------------------------------------------------
#
# Dropped is what no decision reads: times that have passed, serial numbers of jobs and runs, values
# that are the same everywhere. Fences are replaced by their order among the grants in hands, nonces
# go with their fence, and workers are interchangeable. Live runs follow from the grant, which the
# promises check. Of a job that has ended only its end is left, since a person's retry counts again;
# of a job that its task has replaced by another, only the hands that still hold its grants.

DROPPED_OF_JOB = frozenset(
    {
        *(
            "id",
            "waited",
            "state_at",
            "queued_at",
            "created_at",
            "ended_at",
            "rank",
            "queue_deadline",
        ),
        *("fence", "nonce", "worker", "runs", "run_id", "options", "result", "failures"),
    }
)
DROPPED_OF_TASK = frozenset(
    {
        *("state_at", "created_at", "jobs", "job_id", "options", "blocked_detail", "answered"),
    }
)
_of_job = itemgetter(*(i for i, name in enumerate(Job._fields) if name not in DROPPED_OF_JOB))
_of_task = itemgetter(*(i for i, name in enumerate(Task._fields) if name not in DROPPED_OF_TASK))


def key(state: State) -> tuple[Any, ...]:
    """What tells a state from every other one that behaves differently."""
    world, hands, witnesses = state
    names = {job.id: name for job in world.jobs.values() if (name := _latest(world, job))}
    return (
        *(
            (name, _job_key(world.jobs[job_id], witnesses[job_id]))
            for job_id, name in names.items()
        ),
        *(_task_key(task) for task in world.tasks.values()),
        _hands_key(world, hands, names, witnesses),
        _parts_key(world, names),
    )


def _without_hands(state: State) -> tuple[Any, ...]:
    """What the kernel sees: the key without the hands, and ids, fences and states of all jobs."""
    *rows, _, parts = key(state)
    jobs = ((job.id, job.fence, job.state) for job in state.world.jobs.values())
    return (*rows, parts, *jobs)


def _latest(world: World, job: Job) -> str | None:
    """The name of a job that can still be requested: its task's, or its own if it has none."""
    if job.task_id is None:
        return job.id
    return job.task_id if world.tasks[job.task_id].job_id == job.id else None


def _job_key(job: Job, witness: Witness) -> tuple[Any, ...]:
    if witness.ended is not None:
        return (job.state,)
    failures = tuple(sorted(job.failures.items()))
    return (*_of_job(job), failures, witness._replace(holder=None, fence=0))


def _task_key(task: Task) -> tuple[Any, ...]:
    return (*_of_task(task), _frozen(task.blocked_detail), _frozen(task.answered))


def _hands_key(
    world: World, hands: Hands, names: Mapping[str, str], witnesses: Mapping[str, Witness]
) -> tuple[Any, ...]:
    """Each hand by its job and by how many fences in other hands are higher; workers unnamed."""
    grants = [hand.grant for hand in hands if hand is not None]
    ranked = []
    for grant in grants:
        if grant.job_id not in names or witnesses[grant.job_id].ended in ("completed", "cancelled"):
            ranked.append((grant.job_id[0], -1))
            continue
        known = {each.fence for each in grants if each.job_id == grant.job_id}
        known.add(world.jobs[grant.job_id].fence)
        ranked.append((names[grant.job_id], sum(fence > grant.fence for fence in known)))
    return tuple(sorted(ranked))


def _parts_key(world: World, names: Mapping[str, str]) -> tuple[Any, ...]:
    found: list[tuple[Any, ...]] = []
    for (kind, job_id), parts in world.parts.items():
        part_key = PART_KEYS.get(kind)
        if part_key is not None and job_id in names:
            found += ((kind, names[job_id], name, part_key(each)) for name, each in parts.items())
    return tuple(sorted(found))


PART_KEYS: Mapping[str, Callable[[Any], Any]] = {
    WAITS: attrgetter("missing"),
    SIGNALS: attrgetter("taken"),
    CHECKPOINTS: attrgetter("done"),
}


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((name, _frozen(each)) for name, each in value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
