"""A temporary installation: a store, a data directory, a record of effects, and processes."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent import failpoints
from detent.engine import CommandRequest
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.derived_ids import job_of_task
from detent.kernel.predicates import ENDED_JOB
from detent.operations.context import Core
from detent.service import open_core
from detent.settings import TOKEN_FILE, Loaded, Settings
from detent.store.types import Query
from verification.fault_injection import effect_record
from verification.fault_injection.effect_record import EffectRecord
from verification.fault_injection.injected_app import app
from verification.fault_injection.process_supervisor import Child, ProcessSpec, ProcessSupervisor

SQLITE, POSTGRES = "sqlite", "postgres"
LEASE_MS = 400
DEADLINE_S = 90.0
#: Most looks read the store, of several cells at a time: more often would take a core.
LOOK_S = 0.03
#: How often a wait checks that the processes it depends on still run.
CHECK_S = 1.0
SETTINGS: Mapping[str, Any] = {
    "worker_lease_ms": LEASE_MS,
    "worker_heartbeat_ms": 100,
    "worker_poll_ms": 50,
    "worker_grace_ms": 300,
    "worker_concurrency": 4,
    "keeper_interval_ms": 50,
    "gateway_port": 0,
    "webhooks_allow": ("127.0.0.0/8",),
}
ACTOR = c.Actor("faults")
#: Names the file by which the clock of a process is set off.
CLOCK = "DETENT_FAULTS_CLOCK"
#: Where processes note each refused stale report, by one byte: a killed one cannot report later.
REFUSED = "refused"
#: Names the broken variant that a process is to be.
MUTANT = "DETENT_FAULTS_MUTANT"


class Failed(Exception):
    """Something that must happen did not."""


def until(
    look: Callable[[], Any],
    what: str,
    seconds: float | None = None,
    running: Iterable[Child] = (),
) -> Any:
    """What `look` finds, as soon as it finds something.

    It fails when the time is over, or as soon as one of the processes in `running` has ended.
    """
    seconds = DEADLINE_S if seconds is None else seconds
    now_s = time.monotonic()
    end_s, check_s = now_s + seconds, now_s
    while not (found := look()):
        now_s = time.monotonic()
        if now_s > end_s:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        if now_s >= check_s:
            check_s = now_s + CHECK_S
            for child in running:
                if child.poll() is not None and not look():
                    raise Failed(f"{child.ending()} before {what}")
        time.sleep(LOOK_S)
    return found


def past_the_lease() -> None:
    """The one thing that must be waited for by the clock: that a lease is over for certain."""
    time.sleep(2 * LEASE_MS / 1_000)


class Environment:
    """A temporary installation; the process supervisor starts its processes."""

    def __init__(
        self,
        supervisor: ProcessSupervisor,
        directory: Path,
        url: str = "",
        mutant: str = "",
        lifecycle: str = "",
        **settings: Any,
    ) -> None:
        self.supervisor, self.directory = supervisor, directory
        self.store = POSTGRES if url else SQLITE
        self.data_dir = directory / "data"
        self.data_dir.mkdir(parents=True)
        self.settings = {
            **SETTINGS,
            **settings,
            "store_data_dir": str(self.data_dir),
            "store_url": url,
        }
        self.effects = EffectRecord(directory / "effects")
        self.hits = directory / "hits"
        #: How far the host's clock is off, in microseconds, for processes that read it.
        self.clock = directory / "clock"
        #: The broken variant that its processes are; empty: none.
        self.mutant = mutant
        #: The lifecycle of the tasks that are submitted; empty: jobs without a task.
        self.lifecycle = lifecycle
        #: How long the failpoint action `delay` takes.
        self.delay_ms = failpoints.DELAY_MS
        self.children: list[Child] = []

    def start(self, role: str, name: str, armed: str = "", **settings: Any) -> Child:
        variables = {
            effect_record.VARIABLE: str(self.effects.directory),
            CLOCK: str(self.clock),
            MUTANT: self.mutant,
        }
        if armed:
            variables |= {
                failpoints.VARIABLE: armed,
                failpoints.TESTING: "1",
                failpoints.LOG: str(self.hits),
                failpoints.DELAY: str(self.delay_ms),
            }
        spec = ProcessSpec(role, name, self.directory, {**self.settings, **settings}, variables)
        child = self.supervisor.start(spec)
        self.children.append(child)
        return child

    def up(self, role: str, name: str, armed: str = "", **settings: Any) -> Child:
        """A process that says that it is up."""
        child = self.start(role, name, armed, **settings)
        until(child.ready.exists, f"{name} is up", running=[child])
        return child

    def until(self, look: Callable[[], Any], what: str, seconds: float | None = None) -> Any:
        """What `look` finds; fails as soon as a process that nothing ends has ended."""
        return until(look, what, seconds, self.running())

    def running(self) -> list[Child]:
        """The processes that nothing ends: no failpoint, and no request to stop."""
        return [child for child in self.children if not (child.armed or child.asked)]

    @contextmanager
    def core(self) -> Iterator[Core]:
        """This process's own way to the store."""
        with open_core(Loaded(Settings(**self.settings), {}, {}, None)) as core:
            yield core

    @property
    def token(self) -> str:
        """What the first gateway has made."""
        return (self.data_dir / TOKEN_FILE).read_text("ascii").strip()

    def was_hit(self, armed: str) -> bool:
        """Whether every failpoint that was armed has acted."""
        return not self.missed(armed)

    def missed(self, armed: str) -> list[str]:
        found = self.hits.read_text() if self.hits.exists() else ""
        acted = {":".join(line.split()[:2]) for line in found.splitlines()}
        return [each for each in armed.split(",") if each.rpartition(":")[0] not in acted]

    def refused(self) -> int:
        """How many reports of its processes were refused because their claim was over."""
        noted = self.directory / REFUSED
        return noted.stat().st_size if noted.exists() else 0

    def end(self) -> list[str]:
        """Stop all processes in parallel; a problem for each that had to be killed."""
        for child in self.children:
            child.stop()
        for child in self.children:
            child.end()
        unruly = [f"P15: {child.spec.name} did not stop" for child in self.children if child.unruly]
        self.children.clear()
        return unruly


def submit(core: Core, intent: str, lifecycle: str = "") -> str:
    """Submit work for one of the app's intents, acknowledged when this returns; return its job.

    With a lifecycle it is a task.
    """
    options = app.intents[intent].declared.options
    made = new_id()
    given: dict[str, Any] = {"payload": {"key": made}, "options": options}
    command: c.Command = c.SubmitJob(made, "default", intent, **given)
    if lifecycle:
        command = c.SubmitTask(made, "default", lifecycle, intent, "faults", queue=True, **given)
    result = core.engine.execute([CommandRequest(command, ACTOR, fresh=True)])[0]
    if isinstance(result, DetentError):
        raise result
    return job_of(made, lifecycle)


def job_of(made: str, lifecycle: str) -> str:
    """The job of what was submitted: itself, or the first of a task."""
    return job_of_task(made, 1) if lifecycle else made


def ended(core: Core, *job_ids: str) -> bool:
    with core.store.read() as view:
        states = [job.state for job, _ in view.jobs(job_ids)]
    return len(states) == len(job_ids) and all(state in ENDED_JOB for state in states)


def at_rest(core: Core) -> bool:
    """Whether all work has ended, including subtasks that no job waits for."""
    return live(core) == 0


def live(core: Core) -> int:
    """How many jobs have not ended."""
    with core.store.read() as view:
        states = view.count_by(Query("jobs"), "state")
    return sum(count for state, count in states.items() if state not in ENDED_JOB)
