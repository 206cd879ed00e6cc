"""Failpoints: named points at which a test kills, stops, delays or fails a process.

DETENT_FAILPOINTS=name:action[:count],… enables them when the process starts; it is refused unless
DETENT_TESTING=1 is set. Each action is first written to the file DETENT_FAILPOINTS_LOG. A disabled
failpoint does nothing.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from detent.errors import Misconfigured

VARIABLE, TESTING, LOG = "DETENT_FAILPOINTS", "DETENT_TESTING", "DETENT_FAILPOINTS_LOG"
DELAY = "DETENT_FAILPOINTS_DELAY_MS"
DELAY_MS = 300

#: Every failpoint and the situation at this point.
NAMES: Mapping[str, str] = {
    "migration.commit": "a migration has run and is not committed",
    "transaction.begun": "a write transaction has begun",
    "commit.before": "everything is written, nothing is committed",
    "commit.after": "everything is committed, and no caller has been notified",
    "save.before": "a batch is decided and not written",
    "answer.before": "a batch is committed and its callers have no result yet",
    "claim.chosen": "jobs are chosen and not claimed",
    "claim.after": "a claim is committed and its worker does not know",
    "due.found": "timers are due and not handled yet",
    "renew.before": "leases are about to be renewed",
    "renew.after": "leases are renewed and the worker does not know",
    "worker.registered": "a worker is registered and has claimed nothing yet",
    "run.start": "a run is about to be executed",
    "step.done": "a step's function has returned and its result is not recorded",
    "step.recorded": "a step's result is recorded and the handler does not know",
    "effect.begun": "the start of an effect is recorded and it is not executed",
    "effect.done": "an effect is executed and its end is not recorded",
    "wait.before": "a run is about to be suspended",
    "subtask.submitted": "a subtask is submitted and its parent has not recorded it",
    "report.before": "runs have ended and their ends are not reported",
    "report.after": "the end of runs is reported and the worker does not know",
    "spawn.before": "a command is recorded and not started",
    "spawn.after": "a command is started and its process is not recorded",
    "output.write": "output of a run is about to be written",
    "evidence.write": "evidence is written to a temporary file",
    "evidence.archived": "evidence is stored and not reported",
    "plan.recorded": "a plan is recorded and none of its steps is started",
    "plan.step_started": "a plan step is started and not executed",
    "plan.step_ended": "a plan step has ended and is not reported",
    "keeper.elected": "a keeper is elected and has done nothing yet",
    "keeper.duty": "a keeper is about to run a duty",
    "seal.before": "a chain block is computed and not written",
    "schedule.submitted": "a schedule has submitted its task and its next time is not recorded",
    "webhook.filled": "events are in the outbox of a webhook and none is sent",
    "webhook.sent": "a message has reached its receiver and this is not recorded",
    "slack.reserved": "a message for Slack is reserved and not posted",
    "slack.posted": "a message is posted to Slack and this is not recorded",
    "slack.updated": "a message in Slack is updated and this is not recorded",
    "slack.applied": "an action from Slack is carried out and not acknowledged",
    "state.replace": "state.json is written to a temporary file",
    "request.received": "a submission has arrived and is not passed to the engine",
    "response.before": "a submission is committed and its client has no response yet",
    "feed.read": "the live feed has read events and no reader has them",
    "feed.history": "a reader's next batch of history is read and not sent",
}


class Action(StrEnum):
    """What happens at a failpoint."""

    KILL = "kill"
    STOP = "stop"
    RAISE = "raise"
    DELAY = "delay"


class Injected(RuntimeError):
    """The exception of the action `raise`, which no code expects."""


@dataclass(slots=True)
class Armed:
    """An enabled failpoint: it acts when it is passed for the `left`-th time, and only once."""

    action: Action
    left: int


#: The enabled failpoints. Code that runs for every submission calls `hit` only if there are any.
armed: dict[str, Armed] = {}
_guard = threading.Lock()
_log: Path | None = None
_delay_s = DELAY_MS / 1_000


def hit(name: str) -> None:
    """Execute the action of a failpoint, if it is enabled."""
    if armed:
        _pass(name)


def _pass(name: str) -> None:
    with _guard:
        found = armed.get(name)
        if found is None:
            return
        found.left -= 1
        if found.left > 0:
            return
        del armed[name]
        _note(f"{name} {found.action} {os.getpid()}\n")
    _act(name, found.action)


def _note(line: str) -> None:
    if _log is not None:
        file = os.open(_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode())
        os.close(file)


def _act(name: str, action: Action) -> None:
    if action is Action.RAISE:
        raise Injected(f"failpoint {name}")
    if action is Action.DELAY:
        time.sleep(_delay_s)
        return
    # Sent to this thread, so that it executes no further instruction.
    number = signal.SIGKILL if action is Action.KILL else signal.SIGSTOP
    signal.pthread_kill(threading.get_ident(), number)


def arm(environment: Mapping[str, str]) -> None:
    """Enable the failpoints that the environment names."""
    global _log, _delay_s
    armed.clear()
    text = environment.get(VARIABLE, "")
    if not text:
        return
    if environment.get(TESTING) != "1":
        raise Misconfigured(
            f"{VARIABLE} is set. It kills processes on purpose and is only for tests.",
            setting=VARIABLE,
            hint=f"Unset it, or set {TESTING}=1 if this is a test.",
        )
    _log = Path(environment[LOG]) if environment.get(LOG) else None
    _delay_s = int(environment.get(DELAY, DELAY_MS)) / 1_000
    armed.update(_read(each) for each in text.split(","))


def _read(text: str) -> tuple[str, Armed]:
    name, _, rest = text.partition(":")
    action, _, count = rest.partition(":")
    known = name in NAMES and action in set(Action) and (not count or count.isdigit())
    if not known:
        raise Misconfigured(
            f"{VARIABLE} contains {text!r}, which is not name:action[:count].",
            setting=VARIABLE,
            hint=f"Actions: {', '.join(Action)}. Names: {', '.join(NAMES)}.",
        )
    return name, Armed(Action(action), int(count or 1))


arm(os.environ)
