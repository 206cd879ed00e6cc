"""Scenarios of concurrent writers, and the condition that must hold afterwards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from detent.engine import Claimed, CommandRequest, CommandResult, Engine, Idempotency, due_timers
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.ids import new_id
from detent.integrity import hash_chain
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.commands import lifecycle_commands as lc
from detent.store.port import WriteTransaction
from detent.store.types import Changes, ClaimFilter, NewEvent
from detent.testing.conformance.lifecycles import document

ACTOR = c.Actor("person:ann")
LEASE_US = 30_000_000
#: Kinds of locks for rows that another transaction has changed.
ROW_LOCKS = ("transactionid", "tuple")
#: Operations that pass over the rows that others change, and never wait for them.
NEVER_WAIT = ("claim", "renew")


class Hand:
    """The actions of a writer; `operation` is the current one."""

    def __init__(self, engine: Engine, name: str, intent: str) -> None:
        self.engine = engine
        self.name = name
        self.intent = intent
        self.operation = ""
        self.claimed: list[Claimed] = []
        self.answers: list[Any] = []

    def submit(self, **fields: Any) -> str:
        self.operation = "submit"
        job_id = new_id()
        given = {"project": "p", "intent": self.intent, **fields}
        self.engine.execute([CommandRequest(c.SubmitJob(job_id, **given), ACTOR, fresh=True)])
        return job_id

    def do(self, command: c.Command, key: Idempotency | None = None) -> Any:
        """Execute a command and record its result or its refusal."""
        self.operation = type(command).__name__
        self.answers += self.engine.execute([CommandRequest(command, ACTOR, key)])
        return self.answers[-1]

    def claim(self, limit: int = 1, worker: str = "") -> list[Claimed]:
        self.operation = "claim"
        ask = ClaimRequest(worker or self.name, new_id(), limit, [self.intent])
        self.claimed += self.engine.claim(ask)
        return self.claimed

    def complete(self) -> None:
        for each in self.claimed:
            self.do(c.CompleteRun(each.grant, each.job.run_id or ""))

    def renew(self, claimed: Sequence[Claimed], worker: str = "") -> set[tuple[str, int]]:
        self.operation = "renew"
        return self.engine.renew(worker or self.name, [each.grant[:2] for each in claimed])

    def keep(self) -> int:
        self.operation = "keep"
        return self.engine.transaction(lambda tx: due_timers.run(tx, 100, self.engine.lifetimes))


@dataclass(slots=True)
class Scene:
    """Several writers, one for preparation and checks, and a clock for all of them."""

    hands: Sequence[Hand]
    direct: Hand
    advance: Callable[[int], None]
    problems: list[str] = field(default_factory=list)

    def expect(self, truth: bool, what: str) -> None:
        if not truth:
            self.problems.append(what)


class Script(NamedTuple):
    """What each writer does, and the check that follows."""

    works: Sequence[Callable[[], Any]]
    check: Callable[[], Any]


# ---- scenarios -------------------------------------------------------------------------------


def same_key(scene: Scene) -> Script:
    """Every writer submits a job with the same idempotency key."""
    key = Idempotency("p", new_id(), "body")
    jobs = [c.SubmitJob(new_id(), "p", scene.direct.intent) for _ in scene.hands]

    def check() -> None:
        answers = [answer for hand in scene.hands for answer in hand.answers]
        values = {each.value for each in answers if isinstance(each, CommandResult)}
        first = [each for each in answers if isinstance(each, CommandResult) and not each.repeated]
        scene.expect(len(values) == len(first) == 1, f"P2: one key has the answers {answers}")

    works = zip(scene.hands, jobs, strict=True)
    return Script([partial(hand.do, job, key) for hand, job in works], check)


def claims(scene: Scene) -> Script:
    """Every writer claims from one lane, renews, and completes."""
    for _ in range(len(scene.hands) + 1):
        scene.direct.submit()

    def work(hand: Hand) -> None:
        claimed = hand.claim(2)
        held = {each.grant[:2] for each in claimed}
        renewed = hand.renew(claimed)
        scene.expect(renewed == held, f"P4: {hand.name} holds {held} and renewed {renewed}")
        hand.complete()

    def check() -> None:
        taken = [each.job.id for hand in scene.hands for each in hand.claimed]
        scene.expect(len(taken) == len({*taken}), f"P4: claimed twice: {taken}")
        refused = [a for hand in scene.hands for a in hand.answers if isinstance(a, DetentError)]
        scene.expect(not refused, f"P5: a holder was refused: {refused}")

    return Script([partial(work, hand) for hand in scene.hands], check)


def named_rows(scene: Scene) -> Script:
    """Every writer adds to one counter, twice."""
    name = scene.direct.intent

    def add(tx: WriteTransaction) -> bool:
        count = tx.rows_for_update("system_state").get(name, 0)
        tx.put_rows("system_state", {name: count + 1})
        return True

    def work(hand: Hand) -> None:
        for _ in range(2):
            hand.operation = "count"
            hand.engine.transaction(add)

    def check() -> None:
        with scene.direct.engine.store.read() as view:
            count = view.rows("system_state")[name]
        wanted = 2 * len(scene.hands)
        scene.expect(count == wanted, f"a change of a named row was lost: {count}, not {wanted}")

    return Script([partial(work, hand) for hand in scene.hands], check)


def limits(scene: Scene) -> Script:
    """Every writer claims under a limit of one."""
    name = f"intent:{scene.direct.intent}"
    scene.direct.engine.transaction(lambda tx: tx.put_rows("limits", {name: {"running": 1}}))
    for _ in scene.hands:
        scene.direct.submit()

    def check() -> None:
        running = [each for hand in scene.hands for each in hand.claimed]
        scene.expect(len(running) <= 1, f"{len(running)} run under a limit of one")
        scene.direct.engine.transaction(lambda tx: tx.put_rows("limits", {name: None}))

    return Script([hand.claim for hand in scene.hands], check)


def leases(scene: Scene) -> Script:
    """A lease has run out: its holder reports, a keeper reclaims it, another one renews it."""
    old, thief, *rest = scene.hands
    scene.direct.submit()
    old.claim()
    held = [*old.claimed]
    scene.advance(LEASE_US + 1_000_000)

    def report() -> None:
        old.submit(intent="other")
        old.complete()

    def forge() -> None:
        forged = thief.renew(held)
        scene.expect(not forged, f"P5: {thief.name} renewed the lease of {old.name}")

    def reclaim() -> None:
        """The job is claimed again, by a worker of the same name as before."""
        keeper = rest[0] if rest else thief
        keeper.keep()
        gone = keeper.claim(1, old.name) and keeper.renew(held, old.name)
        scene.expect(not gone, "P5: a claim that was taken away is renewed")

    def look_and_take() -> None:
        forge()
        reclaim()

    return Script([report, forge, reclaim] if rest else [report, look_and_take], lambda: None)


def arrivals(scene: Scene) -> Script:
    """One claims for the first time while others submit to lanes that it does not know."""
    first, *others = scene.hands
    jobs: list[str] = []

    def work(hand: Hand) -> None:
        jobs.extend(hand.submit(project=f"{hand.name}-{number}") for number in range(2))

    def check() -> None:
        taken = {each.job.id for each in first.claimed}
        for hand in (first, *others):
            seen = claimable(hand)
            lost = {*jobs} - taken - seen
            scene.expect(not lost, f"P3: {hand.name} does not see {len(lost)} jobs in the queue")

    return Script([first.claim, *(partial(work, hand) for hand in others)], check)


def trees(scene: Scene) -> Script:
    """A tree that is cancelled, worked on, and grows, with a task that waits for it."""
    top = c.SubmitTask(new_id(), "p", "board", scene.direct.intent, "cli", queue=True)
    below = c.SubmitTask(
        new_id(), "p", "board", scene.direct.intent, "cli", queue=True, parent_id=top.task_id
    )
    after = c.SubmitTask(
        new_id(), "p", "board", scene.direct.intent, "cli", queue=True, depends_on=(top.task_id,)
    )
    for each in (top, below, after):
        scene.direct.do(each)

    def take() -> None:
        scene.hands[1].claim(2)
        scene.hands[1].complete()

    grown = c.SubmitTask(
        new_id(), "p", "board", scene.direct.intent, "cli", queue=True, parent_id=top.task_id
    )
    canceller, _, *growers = scene.hands
    works = [partial(hand.do, grown) for hand in growers]
    return Script([partial(canceller.do, c.CancelTask(top.task_id)), take, *works], bool)


def endings(scene: Scene) -> Script:
    """Every writer cancels a task twice; another task, with a later id, depends on it.

    When a task ends, its row moves to another table, where a writer that waits for it misses it.
    """
    intent = scene.direct.intent
    first = c.SubmitTask(new_id(), "p", "board", intent, "cli", queue=True)
    after = c.SubmitTask(
        new_id(), "p", "board", intent, "cli", queue=True, depends_on=(first.task_id,)
    )
    for each in (first, after):
        scene.direct.do(each)

    def work(hand: Hand) -> None:
        for _ in range(2):
            hand.do(c.CancelTask(first.task_id))

    def check() -> None:
        answers = [answer for hand in scene.hands for answer in hand.answers]
        lost = [each for each in answers if getattr(each, "code", "") == "unavailable"]
        scene.expect(not lost, f"a writer was rolled back: {lost}")

    return Script([partial(work, hand) for hand in scene.hands], check)


def hash_chain_growth(scene: Scene) -> Script:
    """Two processes extend the hash chain while others append to the log."""

    def extend(hand: Hand) -> None:
        hand.operation = "extend_chain"
        hand.submit()
        hash_chain.extend_chain(hand.engine.store)

    return Script([partial(extend, hand) for hand in scene.hands], bool)


def one_stream(scene: Scene) -> Script:
    """Every writer appends to one job, twice."""
    job = scene.direct.submit()

    def change(hand: Hand) -> None:
        hand.operation = "change"
        for _ in range(2):
            hand.engine.transaction(lambda tx: _add_event(tx, job, lock=True))

    return Script([partial(change, hand) for hand in scene.hands], bool)


def stale_version(scene: Scene) -> Script:
    """Every writer appends to one job without a lock; those that were too late are refused."""
    job = scene.direct.submit()
    written: list[str] = []

    def change(hand: Hand) -> None:
        hand.operation = "change"
        try:
            hand.engine.transaction(lambda tx: _add_event(tx, job, lock=False))
        except DetentError:
            return
        written.append(hand.name)

    def check() -> None:
        with scene.direct.engine.store.read() as view:
            versions = [event.version for event in view.events(0, 100, stream=job)]
        wanted = list(range(1, 2 + len(written)))
        scene.expect(versions == wanted, f"P8: a stale version was appended: {versions}")

    return Script([partial(change, hand) for hand in scene.hands], check)


def _add_event(tx: WriteTransaction, job_id: str, *, lock: bool) -> bool:
    """Append one event to a job that changes nothing else."""
    if lock:
        tx.lock([], [job_id])
    ((job, version),) = tx.jobs([job_id])
    record = e.Record(job_id, None, e.JobReprioritised(job.priority), tx.now(), ACTOR.name)
    entry = NewEvent(job_id, version + 1, job.project, record)
    tx.save(Changes([entry], {job_id: version + 1}, jobs=[job]))
    return True


def later_arrivals(scene: Scene) -> Script:
    """Others submit to a lane whose beginning a claimer remembers, before that place."""
    first, *others = scene.hands
    for _ in range(2):
        scene.direct.submit(priority="P3")
    first.claim()
    jobs: list[str] = []

    def work(hand: Hand) -> None:
        jobs.append(hand.submit(priority="P0"))

    def check() -> None:
        lost = {*jobs} - claimable(first) - {each.job.id for each in first.claimed}
        scene.expect(not lost, f"P3: {first.name} does not see {len(lost)} urgent jobs")

    return Script([first.claim, *(partial(work, hand) for hand in others)], check)


def deletion(scene: Scene) -> Script:
    """One of the jobs that were submitted together is deleted while another one is worked on."""
    jobs = [c.SubmitJob(new_id(), "p", scene.direct.intent) for _ in range(5)]
    scene.direct.engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in jobs])
    scene.direct.do(c.CancelJob(jobs[0].job_id))
    deleter, *others = scene.hands

    def check() -> None:
        with scene.direct.engine.store.read() as view:
            for job in jobs[1:]:
                events = view.events(0, 100, stream=job.job_id)
                scene.expect(
                    all(event.data for event in events), "P9: blanking touched another job"
                )

    def work(hand: Hand) -> None:
        hand.claim()
        hand.complete()

    delete = partial(deleter.do, c.DeleteJob(jobs[0].job_id))
    return Script([delete, *(partial(work, hand) for hand in others)], check)


def sets(scene: Scene) -> Script:
    """Every writer submits equal jobs together, claims as many, and reports everything twice."""
    submitted: list[str] = []

    def work(hand: Hand) -> None:
        hand.operation = "submit"
        jobs = [c.SubmitJob(new_id(), "p", hand.intent, payload=hand.name) for _ in range(5)]
        hand.engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in jobs])
        submitted.extend(each.job_id for each in jobs)
        hand.claim(5)
        for step in ("step-0", "step-0", "step-1", "step-1"):
            hand.operation = "checkpoint"
            steps = [c.RecordCheckpoint(each.grant, step) for each in hand.claimed]
            hand.engine.execute([CommandRequest(each, ACTOR) for each in steps])
        ends = [c.CompleteRun(each.grant, each.job.run_id or "") for each in hand.claimed]
        for _ in range(2):
            hand.operation = "complete"
            hand.engine.execute([CommandRequest(each, ACTOR) for each in ends])

    def check() -> None:
        taken = [each.job.id for hand in scene.hands for each in hand.claimed]
        scene.expect(len(taken) == len({*taken}), f"P4: claimed twice: {taken}")
        with scene.direct.engine.store.read() as view:
            for job in submitted:
                names = [event.name for event in view.events(0, 100, stream=job)]
                ends = names.count("job_completed")
                scene.expect(ends == (job in taken), f"P5: {job} has ended {ends} times")
                steps = names.count("checkpoint_recorded")
                scene.expect(steps == 2 * ends, f"P5: {job} has {steps} checkpoints")

    return Script([partial(work, hand) for hand in scene.hands], check)


def removal(scene: Scene) -> Script:
    """A lifecycle is removed while others submit tasks of it."""
    name = f"work_{new_id()}"
    scene.direct.do(lc.InstallLifecycle(document() | {"name": name}))
    remover, *others = scene.hands

    def check() -> None:
        removed = not isinstance(remover.answers[-1], DetentError)
        made = [each for hand in others for each in hand.answers if isinstance(each, CommandResult)]
        scene.expect(
            removed != bool(made), f"a task has the lifecycle that was removed: {len(made)}"
        )

    works = [
        partial(hand.do, c.SubmitTask(new_id(), "p", name, hand.intent, "cli")) for hand in others
    ]
    return Script([partial(remover.do, lc.RemoveLifecycle(name)), *works], check)


class _Undo(Exception):
    """Ends a transaction that is not to be committed."""


def claimable(hand: Hand) -> set[str]:
    """What a claim of this process would find now; nothing is taken."""
    found: set[str] = set()
    try:
        with hand.engine.store.write() as tx:
            candidates = tx.claimable(ClaimFilter([hand.intent]), 100, tx.now())
            found.update(each.job_id for each in candidates)
            raise _Undo
    except _Undo:
        return found


SCENARIOS: Mapping[str, Callable[[Scene], Script]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(same_key, claims, named_rows, limits, leases, arrivals, trees, endings),
        *(hash_chain_growth, one_stream, stale_version, later_arrivals, deletion, sets, removal),
    )
}
