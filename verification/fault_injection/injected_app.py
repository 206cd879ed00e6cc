"""The app under fault injection: its handlers record every effect outside the store.

`tour` passes everything that a run can do; the other intents are one thing each.
"""

import sys
import time
from functools import partial
from typing import Any

from detent.app.app import App
from detent.app.effects import NOT_DONE
from detent.app.run_context import Run
from verification.fault_injection.effect_record import EffectRecord, from_environment

REFERENCE = "verification.fault_injection.injected_app:app"
#: Faults are many and not the work's own: it is retried immediately, and often.
RETRY = {"retries": 50, "backoff": "fixed", "delay_ms": 20, "classes": {"lost": {"retries": 200}}}
#: A step of a plan has a count of its own.
MAX_STEP_RETRIES = 50
NAP_S = 0.02
#: As long as two leases.
LONG_S = 0.8

app = App()


class RecordedCalls:
    """What a handler does in the world, for one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.effects: EffectRecord = from_environment()

    def step(self, name: str) -> str:
        """A recorded step: done at least once, and never again once its result was seen."""
        value: str = self.run.step(name, partial(self._do, name))
        self.effects.past(self.run.job_id, name, self.run.fence)
        return value

    def effect(self, name: str) -> str:
        """An effect that can be looked up: done exactly once."""
        value: str = self.run.effect(
            name, partial(self._do, name), policy="reconcile", reconcile=partial(self._find, name)
        )
        self.effects.past(self.run.job_id, name, self.run.fence)
        return value

    def _do(self, name: str) -> str:
        self.effects.do(self.run.job_id, name, self.run.fence)
        return name

    def _find(self, name: str, _: str) -> Any:
        return name if self.effects.has_done(self.run.job_id, name, self.run.fence) else NOT_DONE


@app.intent("small", retry=RETRY)
def small(run: Run) -> str:
    return RecordedCalls(run).effect("effect:only")


@app.intent("slow", retry=RETRY)
def slow(run: Run, seconds: float = 0.2) -> str:
    calls = RecordedCalls(run)
    calls.step("step:before")
    linger(run, seconds)
    return calls.effect("effect:after")


def linger(run: Run, seconds: float) -> None:
    """Be at it for some time, and say so."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        time.sleep(NAP_S)
        run.progress(None, "still at it")


@app.intent("long", retry=RETRY)
def long(run: Run) -> str:
    """A little of everything, then long enough to be overtaken, or until it is let go."""
    calls = RecordedCalls(run)
    calls.step("step:one")
    calls.effect("effect:two")
    run.log("between two and three")
    run.evidence("three.json", {"job": run.job_id})
    run.subtask("small", name="child")
    linger(run, LONG_S)
    while calls.effects.hold.exists():
        linger(run, NAP_S)
    return calls.effect("effect:four")


@app.intent("held", retry=RETRY)
def held(run: Run) -> str:
    """Ends soon, and records nothing before; while it is held, it does not end.

    Not immediately: the worker handles due timers after a claim, and one that is stopped within
    that transaction shows nothing.
    """
    time.sleep(NAP_S)
    while from_environment().hold.exists():
        linger(run, NAP_S)
    return run.job_id


@app.intent("tour", retry=RETRY)
def tour(run: Run) -> str:
    """Everything a run can do, one after the other."""
    calls = RecordedCalls(run)
    calls.step("step:one")
    calls.effect("effect:two")
    run.log("between two and three")
    run.evidence("three.json", {"job": run.job_id})
    run.sleep(0.001, name="nap")
    child = run.subtask("small", name="child")
    run.gather([child])
    calls.step("step:four")
    return calls.effect("effect:five")


@app.intent("signalled", retry=RETRY)
def signalled(run: Run) -> Any:
    """Waits for a signal, or for its time."""
    calls = RecordedCalls(run)
    calls.effect("effect:asked")
    value = run.wait_for("go", timeout=1.0, default="no signal")
    calls.effect("effect:heard")
    return value


@app.intent("asking", retry=RETRY)
def asking(run: Run) -> Any:
    """Asks a person; a default is used if no answer comes."""
    answer = run.ask("Go on?", ["yes", "no"], timeout=4.0, default="no answer")
    RecordedCalls(run).effect("effect:answered")
    return answer


@app.intent("part", retry=RETRY)
def part(run: Run, name: str = "part") -> str:
    return RecordedCalls(run).effect(f"effect:{name}")


app.plan(
    "planned",
    [
        {"name": name, "intent": "part", "needs": needs, "input": {"name": name}}
        for name, needs in (("a", []), ("b", []), ("c", ["a", "b"]))
    ],
    retry=RETRY,
    max_retries=MAX_STEP_RETRIES,
)


@app.planner("thought-out", retry=RETRY, max_retries=MAX_STEP_RETRIES)
def thought_out(_: Any) -> list[dict[str, Any]]:
    return [{"name": "only", "intent": "part", "input": {"name": "only"}}]


app.command("command", [sys.executable, "-S", "-c", "print('output of a command')"], retry=RETRY)
