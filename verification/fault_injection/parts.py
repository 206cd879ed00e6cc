"""The parts of fault injection by name, each in full and in quick size, and their results.

A part reports its progress, and returns what is wrong and the command that runs it again.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from detent.failpoints import Action
from detent.store.store_url import open_store
from verification import power_loss
from verification.fault_injection import fault_cells, fault_scenes, matrix, races, soak
from verification.fault_injection.chaos_run import ChaosRun, Plan
from verification.fault_injection.environment import SQLITE
from verification.fault_injection.followed_tasks import follow
from verification.fault_injection.matrix import Databases
from verification.fault_injection.process_supervisor import ProcessSupervisor
from verification.memory_directory import MEMORY
from verification.simulation import FLOORS, Outcome, simulate

if TYPE_CHECKING:
    from verification.postgres_server import Server

Say = Callable[[str], None]
#: Steps of one seed of the simulation: a new seed is worth more than a longer run.
STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much of each part: about an hour in all, or as little as shows that it works."""

    seeds: int
    actions: tuple[Action, ...]
    stops: int
    races: int
    images: int
    jobs: int
    faults: int
    steps: int
    soak_minutes: float
    interleavings: int
    freezes: int
    commits: int
    rows: int

    def share(self, share: float) -> "Size":
        """The same with this share of what is counted, and at least one of each."""
        counted = (
            "stops",
            "races",
            "images",
            "faults",
            "interleavings",
            "freezes",
            "commits",
            "rows",
        )
        counts = {name: max(1, round(getattr(self, name) * share)) for name in counted}
        return replace(self, **counts, soak_minutes=self.soak_minutes * share)


#: What `./dev faults` runs in about an hour on two cores.
FULL = Size(
    seeds=3,
    actions=(*Action,),
    stops=200,
    races=5_000,
    images=20_000,
    jobs=300,
    faults=200,
    steps=1_000_000,
    soak_minutes=5.0,
    interleavings=400,
    freezes=60,
    commits=100_000,
    rows=1_000_000,
)
QUICK = Size(
    seeds=1,
    actions=(Action.KILL,),
    stops=6,
    races=200,
    images=200,
    jobs=20,
    faults=4,
    steps=4_000,
    soak_minutes=0.1,
    interleavings=16,
    freezes=4,
    commits=300,
    rows=1_000,
)


@dataclass(frozen=True, slots=True)
class Order:
    """What was requested."""

    seed: int = 1
    minutes: float = 1.0
    store: str = SQLITE
    faults: tuple[str, ...] = ()
    size: Size = FULL
    keep: bool = False
    #: Of the simulation; without it, as many as the size says.
    steps: int | None = None

    def command(self, part: str) -> str:
        if part == "chaos":
            return f"{self.plan.command()} --part chaos"
        steps = f" --steps {self.steps}" if part == "simulation" and self.steps else ""
        quick = " --quick" if self.size is QUICK else ""
        options = f"--store {self.store} --seed {self.seed} --part {part}{steps}{quick}"
        return f"python -m verification.fault_injection {options}"

    @property
    def plan(self) -> Plan:
        return Plan(self.seed, self.minutes, self.store, self.faults)


@dataclass(slots=True)
class Result:
    """What a part has seen and what it has found."""

    part: str
    store: str
    seen: str = ""
    problems: list[str] = field(default_factory=list)
    replay: str = ""
    bundle: str = ""
    seconds: float = 0.0
    #: What can be added up over several runs.
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    """What a part works with: the order, a directory, the progress report, and its result."""

    order: Order
    supervisor: ProcessSupervisor
    where: Path
    say: Say
    result: Result

    @contextmanager
    def databases(self) -> Iterator[Databases | None]:
        if self.order.store == SQLITE:
            yield None
            return
        from verification.postgres_server import Server

        with Server.start(self.where / "pg") as server:
            yield Databases(server)

    def servers(self) -> Iterator["Server"]:
        """A server of every version that is installed; none if the store is a file."""
        if self.order.store == SQLITE:
            self.result.seen = "nothing to do: it is about PostgreSQL"
            return
        from verification.postgres_server import Server, find_binaries

        for each in find_binaries():
            with Server.start(
                self.where / f"pg{each.version}",
                binaries=each,
                settings={"deadlock_timeout": "100ms"},
            ) as server:
                yield server

    def is_for_a_file(self) -> bool:
        """Whether the store is one; otherwise the part has nothing to do, and says so."""
        if self.order.store != SQLITE:
            self.result.seen = "nothing to do: it is about a file"
        return self.order.store == SQLITE


def run(part: str, order: Order, supervisor: ProcessSupervisor, say: Say) -> Result:
    """Run one part on one store; its directory is kept if it failed, or if the order says so."""
    result = Result(part, order.store, replay=order.command(part))
    begun_s = time.monotonic()
    where = Path(tempfile.mkdtemp(prefix="detent-faults-", dir=MEMORY))
    try:
        PARTS[part](Session(order, supervisor, where, say, result))
    finally:
        result.seconds = time.monotonic() - begun_s
        if order.keep or result.problems:
            result.bundle = str(where)
        else:
            shutil.rmtree(where, ignore_errors=True)
    return result


# ---- the parts -------------------------------------------------------------------------------


def _chaos(at: Session) -> None:
    _run_chaos(at, at.order.plan)


def _clock(at: Session) -> None:
    """A chaos run in which only the clocks of the processes are set forward and back."""
    if at.is_for_a_file():
        _run_chaos(at, replace(at.order.plan, faults=("clock",)))


def _run_chaos(at: Session, plan: Plan) -> None:
    report = ChaosRun(plan, at.supervisor, at.where, at.say).run()
    at.result.problems = report.problems
    at.result.seen = "; ".join(report.lines()[:2])


def _failpoints(at: Session) -> None:
    """The whole matrix once for each seed."""
    seeds = range(at.order.seed, at.order.seed + at.order.size.seeds)
    _play(
        at, [each for seed in seeds for each in matrix.fault_cells_of(at.order.size.actions, seed)]
    )


def _stops(at: Session) -> None:
    """Workers that sleep past their leases before every kind of write, again and again."""
    scenes = [
        *fault_scenes.SLEEPERS,
        *(each for each in fault_scenes.SCENES if each.role == "worker"),
    ]
    every = ((scene, Action.STOP, count) for count in range(1, 1_000) for scene in scenes)
    _play(at, [*islice(every, at.order.size.stops)])


def _play(at: Session, wanted: Sequence[matrix.FaultCell]) -> None:
    """Every cell; where the work was done before the pass that was drawn, at the scene's own."""
    played: list[fault_cells.Outcome] = []

    def on_outcome(outcome: fault_cells.Outcome) -> None:
        played.append(outcome)
        for each in outcome.problems:
            at.say(f"{outcome.name}: {each}")
        if len(played) % 20 == 0:
            at.say(f"{len(played)} cells of {len(wanted)}, and a few again")

    with at.databases() as databases:
        first = matrix.run(at.supervisor, at.where, databases, wanted, on_outcome)
        late = [(each.scene, each.action, None) for each in first if each.unmet]
        again = matrix.run(at.supervisor, at.where / "again", databases, late, on_outcome)
    at.result.problems = [f"{cell.name}: {each}" for cell in first for each in cell.problems]
    at.result.problems += [line for cell in again for line in cell.lines()]
    met, refused = sum(each.hit for each in played), sum(each.refused for each in played)
    blocked = sum(each.blocked for each in played)
    checked, offences = follow(each.traces for each in played)
    at.result.problems += offences
    at.result.seen = (
        f"{len(wanted)} cells, {met} met their failpoint ({len(late)} at an earlier pass than was "
        f"drawn), {blocked} stopped within a transaction, {refused} late reports refused; "
        f"{checked.line()}"
    )


def _races(at: Session) -> None:
    with at.databases() as databases:
        url = str(at.where / "races.db")
        if databases is not None:
            url = databases.cluster.create_database("races")
        at.say(f"{at.order.size.races} races between accept, reject and cancel")
        found = races.run(lambda: open_store(url), at.order.size.races)
    at.result.problems = found.problems
    at.result.seen = f"{found.races} races, won by {dict(found.won)}"


def _images(at: Session) -> None:
    """Only for a file: PostgreSQL tests its own log."""
    if not at.is_for_a_file():
        return
    trace = power_loss.record(at.where / "recorded.db", at.order.size.jobs)
    done = held = 0
    while done < at.order.size.images and not at.result.problems:
        found = power_loss.try_images(
            trace, at.where, min(5_000, at.order.size.images - done), at.order.seed + done
        )
        done, held = done + found.images, held + found.held
        at.result.problems += found.problems
        at.say(f"{done} of {at.order.size.images} images, {held} acknowledged commits checked")
    at.result.seen = f"{done} images, {held} acknowledged commits checked"


def _disk(at: Session) -> None:
    if not at.is_for_a_file():
        return
    raised = 0
    for fault in power_loss.FAULTS:
        for nth in range(1, at.order.size.faults + 1):
            count, found = power_loss.try_fault(
                at.where / f"{fault}-{nth}.db", fault, nth, 1 + nth % 3
            )
            raised += count
            at.result.problems += [f"{fault} at {nth}: {each}" for each in found]
        at.say(f"{fault}: {at.order.size.faults} places")
    at.result.seen = f"{raised} faults of the disk"


def _simulation(at: Session) -> None:
    """The engine on a virtual clock; on SQLite only, where a seed is a run."""
    if not at.is_for_a_file():
        return
    wanted = at.order.steps or at.order.size.steps
    length = min(STEPS, wanted)
    total = Outcome(at.order.seed, wanted)
    for seed in range(at.order.seed, at.order.seed + wanted // length):
        outcome = simulate(seed, length)
        total.counts += outcome.counts
        if outcome.failure is not None:
            at.result.problems += outcome.lines()
            break
        if seed % 10 == 9:
            at.say(f"{total.counts['steps']:,} of {wanted:,} steps")
    else:
        # One seed may see little of something; all of them together may not.
        at.result.problems += [f"too little happened: {each}" for each in total.shortfalls()]
    at.result.counts = {name: total.counts[name] for name in ("steps", *FLOORS)}
    seen = ", ".join(f"{name} {total.counts[name]:,}" for name in FLOORS)
    at.result.seen = f"{total.counts['steps']:,} steps, seeds {at.order.seed} to {seed}: {seen}"


def _soak(at: Session) -> None:
    """Even load for minutes: whatever need not grow must not."""
    with at.databases() as databases:
        url = "" if databases is None else databases.cluster.create_database("soak")
        report = soak.run(at.supervisor, at.where, url, at.order.size.soak_minutes, at.say)
    at.result.problems = report.problems
    at.result.seen = report.line()


def _interleavings(at: Session) -> None:
    """Writers on a real PostgreSQL, statement by statement in an order that the seed decides."""
    from verification.interleavings import explore

    seen = []
    for server in at.servers():
        found = explore(server, at.order.size.interleavings, at.order.seed, say=at.say)
        version = f"PostgreSQL {server.binaries.version}"
        at.result.problems += [f"{version}: {each}" for each in found.problems]
        seen.append(f"{version}: {found.line()}")
    at.result.seen = "; ".join(seen) or at.result.seen


def _freezes(at: Session) -> None:
    """A process that is stopped at random points of its writes must not freeze the others."""
    from verification import postgres_stops

    seen = []
    for server in at.servers():
        found = postgres_stops.run(server, at.order.size.freezes, at.order.seed)
        version = f"PostgreSQL {server.binaries.version}"
        at.result.problems += [f"{version}: {each}" for each in found.problems]
        seen.append(f"{version}: {found.line()}")
        at.say(seen[-1])
    at.result.seen = "; ".join(seen) or at.result.seen


def _commits(at: Session) -> None:
    """Commits that overlap: every reader sees each event exactly once, in the order of streams."""
    from verification import commit_order

    with at.databases() as databases:
        if databases is None:
            at.result.seen = "nothing to do: it is about PostgreSQL"
            return
        url = databases.cluster.create_database("commits")
        found = commit_order.run(url, at.order.size.commits, at.order.seed, at.say)
    at.result.problems = found.problems
    at.result.seen = found.line()


def _operations(at: Session) -> None:
    """What hot operations read in a small and in a large database."""
    from verification import hot_operations
    from verification.postgres_server import Server

    sizes = [10, min(10_000, at.order.size.rows), at.order.size.rows]
    seen: list[str] = []
    if at.order.store == SQLITE:
        at.result.problems = hot_operations.compare_on_sqlite(at.where, sizes, seen.append)
    else:
        with Server.start(at.where / "pg", settings=hot_operations.SETTINGS) as server:
            at.result.problems = hot_operations.compare_on_postgres(server, sizes, seen.append)
    at.result.seen = "; ".join(seen)


PARTS: Mapping[str, Callable[[Session], None]] = {
    "chaos": _chaos,
    "failpoints": _failpoints,
    "stops": _stops,
    "races": _races,
    "images": _images,
    "disk": _disk,
    "simulation": _simulation,
    "soak": _soak,
    "interleavings": _interleavings,
    "freezes": _freezes,
    "commits": _commits,
    "operations": _operations,
    "clock": _clock,
}
