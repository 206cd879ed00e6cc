"""Reads the error trace of TLC and writes it as plain steps. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.lifecycle_tla.tla_values import read_value

Worlds = Mapping[str, Mapping[str, Any]]

STATE = re.compile(
    r"^State \d+: <(\w+)[^\n]*>\n(?:/\\ )?tasks = (.*?)(?=\n\n|\nState |\nBack|\Z)", re.M | re.S
)
REPEATED = re.compile(r"^(?:Back to state (\d+)|State \d+: (Stuttering))", re.M)
#: What the steps that have no event's name mean.
MEANINGS: Mapping[str, str] = {
    "Initial": "the task is created",
    "SubmitSubtask": "a subtask is submitted",
    "DismissSubtask": "a person dismisses the failed subtask",
    "Claim": "a worker claims the job",
    "Complete": "the run completes",
    "Fail": "the run fails",
    "TimeOut": "the run times out",
    "Ask": "the run asks a question",
    "WaitForResource": "the run lacks a resource or money",
    "Wait": "the run waits for a signal or a time",
    "HandBack": "the worker hands the job back",
    "Progress": "the run records progress",
    "Crash": "the worker is lost and the job is reclaimed",
    "RetryIsDue": "the retry is due",
    "EndWait": "the wait of the job ends",
    "TimerIsDue": "a timer is due",
}


class Step(NamedTuple):
    """One step of a trace: what happened, and the tasks after it."""

    action: str
    tasks: Worlds


def read_trace(printed: str) -> Iterator[Step]:
    """Return the steps that TLC printed, and a last one if they repeat without end."""
    found = [Step(action, read_value(value)) for action, value in STATE.findall(printed)]
    yield from found
    repeated = REPEATED.search(printed)
    if repeated is not None and found:
        action = f"back to step {repeated[1]}" if repeated[1] else "nothing happens any more"
        yield Step(action, found[-1].tasks)


def lines(steps: Iterable[Step]) -> list[str]:
    """Return the steps as text, each with what it changed."""
    found = []
    before: Worlds = {}
    for number, step in enumerate(steps, start=1):
        meaning = MEANINGS.get(step.action) or _event(step.action)
        changes = "; ".join(_changes(before, step.tasks))
        found.append(f"{number}. {meaning}" + (f": {changes}" if changes else ""))
        before = step.tasks
    return found


def _event(action: str) -> str:
    return f"a person sends {action}" if action.startswith("task_") else action


def _changes(before: Worlds, after: Worlds) -> Iterator[str]:
    for name, task in after.items():
        old = before.get(name, {})
        changed = [
            f"{field} {_shown(value)}" for field, value in task.items() if old.get(field) != value
        ]
        if changed and (old or name == "task"):
            shown = changed if old else [f"state {task['state']}"]
            yield f"{name}: {', '.join(shown)}"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
