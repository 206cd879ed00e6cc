"""The kernel's speed: events folded, the walk of other state machines, and what a decision costs.

Folding is measured three ways, since a log is read three ways: for the state alone, for the state
out of a stream that also has runs in it, and for whole rows.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.harness import Aim, Benchmark, Contestant, Scale, parts
from bench.peers import environments
from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.events import Record
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.world import World
from detent.task_lifecycles import SHIPPED

JOB = LIFECYCLES["job"]
NOW_US = 1_700_000_000_000_000
PERSON = c.Actor("bench")
JOBS = 2_000
MOVES = (
    *("job_created", "job_running", "job_waiting", "wait_completed", "job_running"),
    *("job_retrying", "job_requeued", "job_running", "job_completed"),
)


def timed(work: Callable[[], object]) -> float:
    """Seconds of this process alone: what others do on the machine is no part of it."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


# ---- folding ---------------------------------------------------------------------------------


def folding(scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(JOBS, least=100)
    lives = [MOVES] * count
    records = log(count)
    streams = [[record.event.name for record in stream] for stream in records]
    return (
        Contestant("state, strictly", partial(_names, lives, JOB.fold)),
        Contestant("state, leniently", partial(_names, lives, JOB.derive)),
        Contestant("state, runs in between", partial(_names, streams, JOB.fold)),
        Contestant("whole rows", partial(_rows, records)),
    )


def _names(streams: Sequence[Sequence[str]], fold: Callable[[Sequence[str]], str]) -> float:
    def work() -> None:
        for stream in streams:
            fold(stream)

    return sum(map(len, streams)) / timed(work)


def _rows(streams: list[list[Record]]) -> float:
    world = World(lifecycles=SHIPPED)

    def work() -> None:
        for stream in streams:
            for record in stream:
                world.apply(record)

    return sum(map(len, streams)) / timed(work)


def log(count: int = JOBS) -> list[list[Record]]:
    """What the kernel writes for bare jobs that succeed: one stream each."""
    world, streams = World(lifecycles=SHIPPED), []
    for number in range(count):
        stream = []
        for command in life(f"j{number}"):
            draft = decide(world, command, NOW_US, PERSON)
            world.merge(draft, draft.records)
            stream += draft.records
        streams.append(stream)
    return streams


def life(job_id: str) -> tuple[c.SubmitJob, c.ClaimJob, c.CompleteRun]:
    """A bare job from beginning to end."""
    grant = c.Grant(job_id, 1, "nonce")
    return (
        c.SubmitJob(job_id, "bench", "nothing"),
        c.ClaimJob(job_id, "worker", grant.nonce),
        c.CompleteRun(grant, f"{job_id}-r1"),
    )


# ---- walking ---------------------------------------------------------------------------------


OWN = {"detent, a stream": "detent-fold", "detent, one by one": "detent-next"}
PEERS = ("transitions", "python-statemachine")


WALK = Path(__file__).with_name("walk.py")
WALK_S = 0.3


def walking(scale: Scale) -> tuple[Contestant, ...]:
    own, theirs = (
        [sys.executable, str(WALK)],
        environments.command(environments.STATE_MACHINES, WALK),
    )
    long_s = max(0.02, WALK_S * scale.share)
    return (
        *(Contestant(name, partial(_walk, own, kind, long_s)) for name, kind in OWN.items()),
        *(Contestant(name, partial(_walk, theirs, name, long_s)) for name in PEERS),
    )


def _walk(program: list[str], name: str, long_s: float) -> float:
    """In a process of its own for every contestant, detent too, so that all start alike."""
    command = [*program, name, str(long_s)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


# ---- deciding --------------------------------------------------------------------------------


COMMANDS = ("submit", "claim", "complete")


def deciding(scale: Scale) -> tuple[Contestant, ...]:
    count = scale.of(JOBS, least=100)
    return parts(("a whole job", *COMMANDS), lambda: _costs(count))


def _costs(count: int) -> dict[str, float]:
    """µs a job for each of the three commands, decided and merged, none of it stored."""
    world = World(lifecycles=SHIPPED)
    lives = [life(f"j{number}") for number in range(count)]
    took = [1e6 * timed(partial(_decide, world, each)) / count for each in zip(*lives, strict=True)]
    return {"a whole job": sum(took), **dict(zip(COMMANDS, took, strict=True))}


def _decide(world: World, commands: tuple[c.Command, ...]) -> None:
    for command in commands:
        draft = decide(world, command, NOW_US, PERSON)
        world.merge(draft, draft.records)


BENCHMARKS = (
    Benchmark(
        "kernel.fold",
        "Events that one core folds.",
        "events/s",
        folding,
        (Aim(1_000_000),),
    ),
    Benchmark(
        "kernel.walk",
        "Transitions through five states, and the same in other state machine libraries.",
        "transitions/s",
        walking,
        tuple(Aim(20, peer, own) for own in OWN for peer in PEERS),
    ),
    Benchmark(
        "kernel.decide",
        "CPU time of a bare job in the kernel alone.",
        "µs/job",
        deciding,
        less_is_better=True,
        rivals=False,
    ),
)
