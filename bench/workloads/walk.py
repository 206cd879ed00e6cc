"""The same walk over five states, by detent and by other libraries: `python walk.py WHO SECONDS`.

`kernel` starts it under the interpreter that has the library, and it imports only that. Prints
transitions per second. Machines are built once: only the walk is timed.
"""

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

#: A lap of a job: claimed, asleep, claimed, tried again, claimed, failed, and run again.
LAP = (
    ("queued", "job_running", "running"),
    ("running", "job_waiting", "waiting"),
    ("waiting", "wait_completed", "queued"),
    ("queued", "job_running", "running"),
    ("running", "job_retrying", "retrying"),
    ("retrying", "job_requeued", "queued"),
    ("queued", "job_running", "running"),
    ("running", "job_failed", "failed"),
    ("failed", "job_requeued", "queued"),
)
EVENTS = tuple(event for _, event, _ in LAP)
ROWS = tuple(dict.fromkeys(LAP))
STATES = tuple(dict.fromkeys(source for source, _, _ in LAP))
#: How many laps between two reads of the clock.
LAPS = 50

Walk = Callable[[], object]


def detent_fold() -> tuple[Walk, Callable[[], str]]:
    """A whole stream, as the log is read."""
    job = importlib.import_module("detent.kernel.lifecycles").LIFECYCLES["job"]
    stream = ("job_created", *EVENTS * LAPS)
    state = ["queued"]

    def walk() -> None:
        state[0] = job.fold(stream)

    return walk, lambda: state[0]


def detent_next() -> tuple[Walk, Callable[[], str]]:
    """One checked transition after another, as a command asks for them."""
    job = importlib.import_module("detent.kernel.lifecycles").LIFECYCLES["job"]
    state = ["queued"]

    def walk() -> None:
        now = state[0]
        for event in EVENTS * LAPS:
            now = job.next(now, event)
        state[0] = now

    return walk, lambda: state[0]


def transitions() -> tuple[Walk, Callable[[], str]]:
    machine: Any = importlib.import_module("transitions").Machine(
        states=list(STATES),
        transitions=[
            {"trigger": event, "source": source, "dest": target} for source, event, target in ROWS
        ],
        initial="queued",
        auto_transitions=False,
    )
    return _fired([getattr(machine, event) for event in EVENTS]), lambda: str(machine.state)


def python_statemachine() -> tuple[Walk, Callable[[], str]]:
    library: Any = importlib.import_module("statemachine")
    states = {name: library.State(initial=name == "queued") for name in STATES}
    members: dict[str, Any] = dict(states)
    for source, event, target in ROWS:
        arrow = states[source].to(states[target])
        members[event] = arrow if event not in members else members[event] | arrow
    machine = type("Job", (library.StateMachine,), members)()
    fire = _fired([getattr(machine, event) for event in EVENTS])
    return fire, lambda: str(next(iter(machine.configuration)).id)


def _fired(triggers: list[Callable[[], object]]) -> Walk:
    def walk() -> None:
        for _ in range(LAPS):
            for trigger in triggers:
                trigger()

    return walk


CONTESTANTS: dict[str, Callable[[], tuple[Walk, Callable[[], str]]]] = {
    "detent-fold": detent_fold,
    "detent-next": detent_next,
    "transitions": transitions,
    "python-statemachine": python_statemachine,
}


def rate(name: str, seconds: float) -> float:
    """Transitions per second over at least so long; the walk must end where it began."""
    walk, state = CONTESTANTS[name]()
    walk()
    walks, begun = 0, time.process_time()
    while (spent := time.process_time() - begun) < seconds:
        walk()
        walks += 1
    if state() != "queued":
        sys.exit(f"{name} ended in {state()}")
    return walks * LAPS * len(EVENTS) / spent


if __name__ == "__main__":
    print(rate(sys.argv[1], float(sys.argv[2])))
