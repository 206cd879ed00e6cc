"""The trials: a worker is stopped and resumed, a worker is killed, a request is sent twice.

Each trial has a new store, two workers and one job; the job waits in the middle until it is
released. What happened is read from the journal of the job and from the tool's own record of it.
"""

import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.compare.scene import Client, Scene, scene
from bench.compare.systems import System
from bench.peers.environments import Missing

#: How long a tool may take to give the job of a lost worker to another one. Leases last 5 s, and
#: some tools look for lost jobs only every 100 s.
TAKEOVER_S = 120.0
#: How long the start of workers and the end of a released job may take on a busy machine.
START_S = 60.0
#: How long nothing must happen before a trial reads the final state.
QUIET_S = 3.0
#: How long after the begin of the job its worker is stopped. A worker that starts is more often in
#: the middle of a transaction, whose locks would stop the other worker too.
SETTLE_S = 2.0
#: Keys that two clients submit at the same time.
KEYS = 10


class Takeover(NamedTuple):
    """How the job of a lost worker came to another one."""

    second: str | None
    seconds: float | None
    #: Only after the first worker was started again under its name, as a supervisor does.
    restarted: bool


class Started(NamedTuple):
    """A trial in which one of two workers is in the middle of the job."""

    client: Client
    job_id: str
    first: str

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.call("state", self.job_id)
        return found


def stopped(system: System, *, late: bool, takeover_s: float) -> dict[str, Any]:
    """SIGSTOP in the middle of the job, SIGCONT when another worker has the job.

    `late`: the other worker has finished by then. The result of the stopped worker is accepted if
    the job counts as ended by it, or if its result is the stored one.
    """
    with scene(system) as stage:
        begun = _begin(stage)
        time.sleep(SETTLE_S)
        stage.signal(begun.first, signal.SIGSTOP)
        took = _takeover(stage, begun.first, takeover_s)
        if took.second is None:
            return {**_resumed_alone(stage, begun), **_timing(took), "accepted": None}
        if late:
            _finish(stage, begun, took.second)
        before = begun.state()
        _resume(stage, begun.first)
        accepted = _is_accepted(begun, stage, before, late=late)
        stage.release("all")
        _wait_for_end(stage, begun)
        final = begun.state()
        accepted = accepted or final["result"] == begun.first
        return {**_timing(took), **_counts(stage), "accepted": accepted, "state": final["text"]}


def killed(system: System, *, takeover_s: float) -> dict[str, Any]:
    """SIGKILL in the middle of the job: is it run again, when, and which parts happen twice?"""
    with scene(system) as stage:
        begun = _begin(stage)
        stage.signal(begun.first, signal.SIGKILL)
        took = _takeover(stage, begun.first, takeover_s)
        stage.release("all")
        if took.second is not None:
            _wait_for_end(stage, begun)
        final = begun.state()
        return {**_timing(took), **_counts(stage), "ended": final["ended"], "state": final["text"]}


def long(system: System, *, hold_s: float) -> dict[str, Any]:
    """Nothing fails, but the job takes many times as long as the lease: is it run again?"""
    with scene(system) as stage:
        begun = _begin(stage)
        again = stage.until(lambda: len(stage.journal("hold")) > 1, hold_s)
        stage.release("all")
        _wait_for_end(stage, begun)
        return {"again": again, **_counts(stage), "state": begun.state()["text"]}


def duplicates(system: System) -> dict[str, Any]:
    """Two clients submit the same keys together; one key again while it runs, one after its end."""
    keys = [f"key-{number}" for number in range(KEYS)]
    with scene(system) as stage:
        clients = (_installed(stage), stage.client())
        for key in keys:
            for client in clients:
                client.send("submit", key)
            answers = [client.receive() for client in clients]
            if not any("answer" in answer for answer in answers):
                raise Missing(f"submit: {answers[0]['refused']}")
        stage.worker("a")
        held = _first_hold(stage)
        clients[1].send("submit", held)
        while_running = clients[1].receive()
        stage.release("all")
        _wait_for_effects(stage, keys)
        together = [key for key in keys if key != held]
        after_end = together[0]
        counts = {key: len(stage.journal("effect", key)) for key in keys}
        clients[1].send("submit", after_end)
        after = clients[1].receive()
        _quiet(stage)
        again = len(stage.journal("effect", after_end)) - counts[after_end]
        return {
            "together": sum(counts[key] - 1 for key in together),
            "keys": len(together),
            "running": counts[held] - 1 - (counts[together[-1]] - 1),
            "running_refused": while_running.get("refused"),
            "ended": again,
            "ended_refused": after.get("refused"),
        }


# ---- parts of the trials ----------------------------------------------------------------------


def _installed(stage: Scene) -> Client:
    client = stage.client()
    client.call("install")
    return client


def _begin(stage: Scene) -> Started:
    """Two workers, one job, and one of them in the middle of it."""
    client = _installed(stage)
    for label in ("a", "b"):
        stage.worker(label)
    job_id = client.call("submit", "key-0")
    _first_hold(stage)
    return Started(client, job_id, stage.journal("hold")[0].label)


def _first_hold(stage: Scene) -> str:
    if not stage.until(lambda: bool(stage.journal("hold")), START_S):
        raise Missing(f"no worker began the job within {START_S:.0f} s; {stage.why()}")
    return stage.journal("hold")[0].key


def _takeover(stage: Scene, first: str, within_s: float) -> Takeover:
    """Wait until another worker is in the middle of the job; then restart the first one."""

    def others() -> list[Any]:
        return [each for each in stage.journal("hold") if each.label != first]

    for restarted in (False, True):
        if restarted:
            stage.worker(f"{first}-restarted", identity=first)
        begun = time.time()
        if stage.until(lambda: bool(others()), START_S if restarted else within_s):
            found = others()[0]
            return Takeover(found.label, found.at - begun, restarted)
    return Takeover(None, None, restarted=True)


def _resumed_alone(stage: Scene, begun: Started) -> dict[str, Any]:
    _resume(stage, begun.first)
    stage.release("all")
    _wait_for_end(stage, begun)
    return {**_counts(stage), "state": begun.state()["text"]}


def _resume(stage: Scene, first: str) -> None:
    """Let the stopped worker go on and finish. A tool may have cancelled its run by then."""
    stage.release(first)
    stage.signal(first, signal.SIGCONT)
    stage.until(lambda: bool(stage.journal("effect", label=first)), QUIET_S)


def _is_accepted(begun: Started, stage: Scene, before: dict[str, Any], *, late: bool) -> bool:
    """Whether the result of the stopped worker changes the job, while no other worker writes."""

    def changed() -> bool:
        now = begun.state()
        return now != before if late else bool(now["ended"])

    return stage.until(changed, QUIET_S)


def _finish(stage: Scene, begun: Started, label: str) -> None:
    stage.release(label)
    _wait_for_end(stage, begun)


def _wait_for_end(stage: Scene, begun: Started) -> None:
    stage.until(lambda: bool(begun.state()["ended"]), START_S)
    _quiet(stage)


def _wait_for_effects(stage: Scene, keys: list[str]) -> None:
    def done() -> bool:
        return {each.key for each in stage.journal("effect")} >= set(keys)

    stage.until(done, START_S)
    _quiet(stage)


def _quiet(stage: Scene) -> None:
    """Wait until the journal has not grown for a while."""
    size, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        if len(stage.journal()) != size:
            size, since = len(stage.journal()), time.monotonic()
        time.sleep(0.1)


def _timing(took: Takeover) -> dict[str, Any]:
    seconds = None if took.seconds is None else round(took.seconds, 1)
    return {"again_s": seconds, "restarted": took.restarted}


def _counts(stage: Scene) -> dict[str, Any]:
    return {
        "first_parts": len(stage.journal("first part")),
        "effects": len(stage.journal("effect")),
    }


#: By name. The limit is how long a trial waits for another worker to begin the job.
TRIALS: dict[str, Callable[[System, float], dict[str, Any]]] = {
    "stopped": lambda system, limit_s: stopped(system, late=False, takeover_s=limit_s),
    "stopped-late": lambda system, limit_s: stopped(system, late=True, takeover_s=limit_s),
    "killed": lambda system, limit_s: killed(system, takeover_s=limit_s),
    "long": lambda system, limit_s: long(system, hold_s=limit_s),
    "duplicates": lambda system, _limit_s: duplicates(system),
}
