"""One failpoint, one action, one store: a real process meets it, and others put everything right.

A cell proves that the failpoint was passed, that a process which slept past its lease has lost its
say, and that in the end nothing acknowledged is lost and nothing was done twice.
"""

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from detent import feed
from detent.errors import DetentError
from detent.failpoints import Action
from detent.integrity import hash_chain
from detent.operations.context import Core
from detent.store.types import Query
from verification.fault_injection import collected_results
from verification.fault_injection.client_history import OK, REFUSED, Op
from verification.fault_injection.environment import (
    ACTOR,
    Environment,
    Failed,
    at_rest,
    ended,
    job_of,
    past_the_lease,
    submit,
    until,
)
from verification.fault_injection.fault_scenes import Scene
from verification.fault_injection.followed_tasks import RELEASE, install_release, traces_in
from verification.fault_injection.http_client import ask
from verification.fault_injection.log_readers import FaultCellReaders, log_in
from verification.fault_injection.process_supervisor import Child
from verification.fault_injection.receiver import EVENTS, Receiver, receiving
from verification.lifecycle_model.task_traces import Traces

FAR = 1 << 62
#: How long a client waits for a gateway that may be dead.
PATIENCE_S = 1.0
#: How long others get to finish the work of a process that is stopped; on a slow machine this many
#: times as long as that process took to come there.
UNBLOCKED_S, UNBLOCKED_TIMES = 10.0, 10
#: What a gateway is asked for before and after it has met its failpoint.
SUBMISSIONS = 8
#: How long a delay holds up the live feed: readers connect within it.
LAG_MS = 3_000


@dataclass(slots=True)
class Outcome:
    """What became of a cell."""

    scene: Scene
    action: Action
    store: str
    hit: bool = False
    #: Those that were armed and never passed.
    missed: list[str] = field(default_factory=list)
    #: While it was stopped, others could not finish its work.
    blocked: bool = False
    #: All was done before the failpoint was passed so often: the cell shows nothing.
    unmet: bool = False
    problems: list[str] = field(default_factory=list)
    #: Reports of those whose claim was over.
    refused: int = 0
    seconds: float = 0.0
    #: How long it took until the failpoint was met.
    met_s: float = 0.0
    #: What its log says about tasks, to be compared with the model of their lifecycles.
    traces: Traces = field(default_factory=Traces)

    @property
    def name(self) -> str:
        return f"{self.scene}:{self.action} on {self.store}"

    def lines(self) -> list[str]:
        hit = [] if self.hit else [f"not passed: {', '.join(self.missed) or self.scene.point}"]
        return [f"{self.name}: {each}" for each in [*hit, *self.problems]]


def run(
    environment: Environment, scene: Scene, action: Action, count: int | None = None
) -> Outcome:
    """Play one cell. What goes wrong is in the outcome."""
    outcome = Outcome(scene, action, environment.store)
    begun_s = time.monotonic()
    try:
        if environment.lifecycle == RELEASE and scene.role != "first":
            with environment.core() as core:
                install_release(core, ACTOR)
        PLAYS[scene.role](environment, scene.armed(action, count), outcome)
    except (Failed, DetentError, TimeoutError) as error:
        outcome.problems.append(f"{type(error).__name__}: {error}; see {environment.directory}")
    finally:
        outcome.problems += environment.end()
    outcome.refused = environment.refused()
    outcome.seconds = time.monotonic() - begun_s
    return outcome


def _meet(
    environment: Environment,
    victim: Child,
    armed: str,
    outcome: Outcome,
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until the victim has met its failpoint, and for what that does to it."""
    begun_s = time.monotonic()
    environment.until(
        lambda: environment.was_hit(armed) or victim.poll() is not None or over(),
        f"{armed} is passed",
    )
    outcome.met_s = time.monotonic() - begun_s
    outcome.missed = environment.missed(armed)
    outcome.hit = not outcome.missed
    outcome.unmet = not outcome.hit
    if outcome.unmet:
        return
    if outcome.action is Action.KILL:
        environment.until(lambda: victim.poll() is not None, "the victim is dead")
    elif outcome.action is Action.STOP:
        environment.until(victim.is_stopped, "the victim is stopped")


def _heal(
    environment: Environment,
    victim: Child,
    outcome: Outcome,
    healed: Callable[[], Any],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Others put it right; a stopped process goes on only after its lease is over."""
    if outcome.action is Action.STOP and outcome.hit:
        past_the_lease()
        outcome.blocked = outcome.store in outcome.scene.blocks or not _heals(
            environment, healed, outcome
        )
        if not victim.is_stopped():
            outcome.problems.append("it did not stay stopped")
        look()
        victim.send(signal.SIGCONT)
    # While it was blocked, another process may have given up: the stopped one does its work.
    running = () if outcome.blocked else environment.running()
    until(healed, "everything is done", running=running)


def _heals(environment: Environment, healed: Callable[[], Any], outcome: Outcome) -> bool:
    """Whether others finish the work. Not if another thread was stopped within a transaction."""
    patience_s = max(UNBLOCKED_S, UNBLOCKED_TIMES * outcome.met_s)
    try:
        environment.until(healed, "others finish the work of a stopped process", patience_s)
    except Failed:
        return False
    return True


# ---- workers ---------------------------------------------------------------------------------


def _play_worker(environment: Environment, armed: str, outcome: Outcome) -> None:
    with environment.core() as core:
        job_id = submit(core, outcome.scene.intent, environment.lifecycle)
        victim = environment.start("worker", "victim", armed)
        _meet(environment, victim, armed, outcome, lambda: ended(core, job_id))
        if outcome.scene.midway:
            environment.effects.hold.touch()
        environment.start("worker", "relief")
        before: list[Any] = []
        if outcome.scene.midway and outcome.hit:
            _wake_midway(environment, victim, outcome, lambda: _is_taken(core, job_id))
        else:
            # Subtasks that no job waits for write too, until they have ended.
            _heal(
                environment,
                victim,
                outcome,
                lambda: ended(core, job_id) and at_rest(core),
                lambda: before.extend(_log(core)),
            )
        environment.until(lambda: ended(core, job_id), "everything is done")
        _conclude(environment, core, outcome, job_id)
        if before and not outcome.blocked and before != _log(core):
            landed = _log(core)[len(before) :]
            outcome.problems.append(f"P5: a process that slept past its lease has written {landed}")


def _wake_midway(
    environment: Environment, victim: Child, outcome: Outcome, taken: Callable[[], Any]
) -> None:
    """It goes on and says what it has to say while another holds the job, and only then ends it."""
    outcome.blocked = not _heals(environment, taken, outcome)
    victim.send(signal.SIGCONT)
    victim.end()
    environment.effects.hold.unlink()


def _is_taken(core: Core, job_id: str) -> bool:
    with core.store.read() as view:
        return any(job.state == "running" and job.fence > 1 for job, _ in view.jobs([job_id]))


def _log(core: Core) -> list[Any]:
    with core.store.read() as view:
        return list(view.events(0, FAR))


def _play_first(environment: Environment, armed: str, outcome: Outcome) -> None:
    """The first process on an empty store."""
    victim = environment.start("worker", "victim", armed)
    _meet(environment, victim, armed, outcome)
    relief = environment.start("worker", "relief")
    _heal(environment, victim, outcome, relief.ready.exists)
    with environment.core() as core:
        job_id = submit(core, outcome.scene.intent)
        environment.until(lambda: ended(core, job_id), "everything is done")
        _conclude(environment, core, outcome, job_id)


def _conclude(environment: Environment, core: Core, outcome: Outcome, *job_ids: str) -> None:
    """All work ends and all processes stop; then every promise is checked."""
    environment.until(lambda: at_rest(core), "all work has ended")
    outcome.problems += environment.end()
    with core.store.read() as view:
        states = {job.id: job.state for job, _ in view.jobs(job_ids)}
    if states != dict.fromkeys(job_ids, "completed"):
        outcome.problems.append(f"the work is {states}")
    outcome.problems += collected_results.judge(core.store, environment.effects)
    outcome.traces = traces_in(core.store)


# ---- keepers ---------------------------------------------------------------------------------


def _play_keeper(environment: Environment, armed: str, outcome: Outcome) -> None:
    with environment.core() as core, receiving() as receiver:
        receiver.subscribe(core)
        environment.up("worker", "hands")
        job_id = submit(core, outcome.scene.intent)
        with core.store.read() as view:
            schedule = {"intent": "small", "every_s": 3_600, "next_at": view.now() - 1}
        core.engine.transaction(lambda tx: tx.put_rows("schedules", {"hourly": schedule}))
        victim = environment.start("keeper", "victim", armed)
        _meet(environment, victim, armed, outcome)
        environment.start("keeper", "relief")
        _heal(
            environment,
            victim,
            outcome,
            lambda: (
                ended(core, job_id)
                and _is_kept(environment, core)
                and _is_delivered(receiver, outcome, len(_to_deliver(core)))
            ),
        )
        tasks = _tasks(core)
        if [task["state"] for task in tasks] != ["done"]:
            outcome.problems.append(f"P2: a schedule that was due once made {tasks}")
        if receiver.events() != _to_deliver(core) or not {*EVENTS} <= {*receiver.events()}:
            outcome.problems.append(f"P20: the receiver got {receiver.messages}")
        _conclude(environment, core, outcome, job_id)
        with core.store.read() as view:
            outcome.problems += [f"the chain: {each}" for each in hash_chain.check(view).breaks]


def _to_deliver(core: Core) -> list[str]:
    """What the receiver asked for; a task whose worker was too slow for its lease starts again."""
    return [event.name for event in _log(core) if event.name in EVENTS]


def _is_delivered(receiver: Receiver, outcome: Outcome, count: int) -> bool:
    """Everything has arrived; what a sender that died had sent already, once more."""
    armed = "webhook.sent" in (outcome.scene.point, *(each.point for each in outcome.scene.others))
    again = armed and outcome.action in (Action.KILL, Action.RAISE)
    return len(receiver.events()) >= count and len(receiver.messages) >= count + again


def _tasks(core: Core) -> list[Mapping[str, Any]]:
    with core.store.read() as view:
        return list(view.page(Query("tasks")))


def _is_kept(environment: Environment, core: Core) -> bool:
    """The schedule has fired and its task is done, all of that is sealed, and state.json is new."""
    tasks = _tasks(core)
    if not tasks or any(task["state"] != "done" for task in tasks):
        return False
    with core.store.read() as view:
        last = view.last_chain_block()
        sealed = last is not None and last.to_position >= view.head()
        noted = view.rows("schedules")["hourly"].get("last_at") is not None
    try:
        state = json.loads((environment.data_dir / "state.json").read_text())
    except (OSError, ValueError):
        return False
    return sealed and noted and state["queueLength"] == 0


# ---- gateways --------------------------------------------------------------------------------


def _play_gateway(environment: Environment, armed: str, outcome: Outcome) -> None:
    with environment.core() as core:
        environment.up("worker", "hands")
        victim = environment.up("gateway", "victim", armed)
        answers: list[Op] = []
        keys = [f"key-{number}" for number in range(SUBMISSIONS)]
        for key in keys:
            if not environment.was_hit(armed):
                answers.append(_submit(environment, victim, outcome.scene.intent, key))
        _meet(environment, victim, armed, outcome)
        relief = environment.start("gateway", "relief")
        answered: set[str] = set()

        def again() -> bool:
            """Every key once more, whatever the first answer was."""
            for key in keys:
                if relief.ready.exists() and key not in answered:
                    answers.append(_submit(environment, relief, outcome.scene.intent, key))
                    answered.update({key} if answers[-1].outcome == OK else ())
            return len(answered) == len(keys)

        _heal(environment, victim, outcome, again)
        ids = {op.id for op in answers if op.outcome == OK}
        made = [job_of(each, environment.lifecycle) for each in sorted(ids)]
        environment.until(lambda: ended(core, *made), "everything is done")
        _conclude(environment, core, outcome, *made)
        outcome.problems += collected_results.judge(core.store, environment.effects, answers)
        if any(op.outcome == REFUSED for op in answers):
            outcome.problems.append(f"P2: a repeated submission was refused: {answers}")


def _submit(environment: Environment, gateway: Child, intent: str, key: str) -> Op:
    """One submission over HTTP; what is not answered is unknown."""
    url = gateway.ready.read_text()
    body: dict[str, Any] = {"intent": intent, "payload": {"key": key}}
    path = "/api/jobs"
    if environment.lifecycle:
        body |= {"lifecycle": environment.lifecycle, "run": True}
        path = "/api/tasks"
    answered = ask(url, environment.token, "POST", path, body, key=key, timeout_s=PATIENCE_S)
    made = answered.document.get("id", "") if answered.outcome == OK else ""
    return Op("submit", key, made, answered.outcome, answered.code)


# ---- readers of the live feed ----------------------------------------------------------------


def _play_feed(environment: Environment, armed: str, outcome: Outcome) -> None:
    """Readers of two gateways, one of which meets the failpoint; each is compared with the log."""
    environment.delay_ms = LAG_MS
    intent = outcome.scene.intent
    with environment.core() as core:
        environment.up("worker", "hands")
        made = [submit(core, intent, environment.lifecycle)]
        environment.until(lambda: ended(core, *made), "there is something to read")
        relief, victim = (
            environment.up("gateway", "relief"),
            environment.up("gateway", "victim", armed),
        )
        readers = FaultCellReaders(environment, victim, relief)
        readers.start()
        try:
            # A reader that follows the feed reads its history first: one that ends with its
            # history would meet the failpoint without a gap that it could miss.
            environment.until(
                lambda: environment.was_hit(armed) or readers.first.cursor >= feed.head(core.store),
                "the first reader has caught up",
            )
            readers.start_others()
            environment.until(
                lambda: environment.was_hit(armed) or readers.have_read(feed.head(core.store)),
                "readers have caught up",
            )
            made.append(submit(core, intent, environment.lifecycle))
            _meet(environment, victim, armed, outcome)
            readers.add_one_ahead(feed.head(core.store))
            made.append(submit(core, intent, environment.lifecycle))
            _heal(
                environment,
                victim,
                outcome,
                lambda: ended(core, *made) and readers.beside.cursor == feed.head(core.store),
            )
            environment.until(
                lambda: readers.have_read(feed.head(core.store)), "readers have caught up"
            )
        finally:
            readers.end()
        _conclude(environment, core, outcome, *made)
        outcome.problems += readers.problems(log_in(core.store))


PLAYS: Mapping[str, Callable[[Environment, str, Outcome], None]] = {
    "first": _play_first,
    "worker": _play_worker,
    "keeper": _play_keeper,
    "gateway": _play_gateway,
    "feed": _play_feed,
}
