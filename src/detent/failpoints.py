"""Named places at which a test makes a process die, stop, fail or dawdle. Off, a call does nothing.

Armed by DETENT_FAILPOINTS=name:action[:count],… when the process starts, and refused unless
DETENT_TESTING=1 stands beside it. Each act is noted first in the file DETENT_FAILPOINTS_LOG.
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

#: Every failpoint and where it stands.
NAMES: Mapping[str, str] = {
    "migration.commit": "a migration has run and is not committed",
    "transaction.begun": "a write transaction has begun",
    "commit.before": "everything is written, nothing is committed",
    "commit.after": "it is committed, and nobody has heard of it",
    "save.before": "a batch is decided and not written",
    "answer.before": "a batch is committed and its callers are not answered",
    "claim.chosen": "jobs are chosen and not claimed",
    "claim.after": "a claim is committed and its worker does not know",
    "due.found": "something is due and nothing was done about it",
    "renew.before": "leases are about to be renewed",
    "renew.after": "leases are renewed and the worker does not know",
    "worker.registered": "a worker has said that it is here and claims nothing yet",
    "run.start": "a run is about to be carried out",
    "step.done": "a step's function has returned and its result is not recorded",
    "step.recorded": "a step's result is recorded and the handler does not know",
    "effect.begun": "an effect is announced and not done",
    "effect.done": "an effect is done and its end is not recorded",
    "wait.before": "a run is about to be suspended",
    "subtask.submitted": "a subtask is submitted and its parent has not noted it",
    "report.before": "runs have ended and nothing of it is reported",
    "report.after": "the end of runs is reported and the worker does not know",
    "spawn.before": "a command is written down and not started",
    "spawn.after": "a command is started and its process is not written down",
    "output.write": "output of a run is about to be written",
    "evidence.write": "a piece of evidence is written beside its place",
    "evidence.archived": "a piece of evidence is in its place and not reported",
    "plan.recorded": "a plan is recorded and none of its steps is started",
    "plan.step_started": "a step of a plan is started and not carried out",
    "plan.step_ended": "a step of a plan has ended and is not reported",
    "keeper.elected": "a keeper is elected and has done nothing yet",
    "keeper.duty": "a keeper is about to do a duty",
    "seal.before": "a chain block is computed and not written",
    "schedule.submitted": "a schedule has fired and its next time is not noted",
    "webhook.filled": "events are in the outbox of a webhook and none is sent",
    "webhook.sent": "a message has arrived at its receiver and that is not noted",
    "state.replace": "state.json is written beside its place",
    "request.received": "a submission has come in and was not asked for",
    "response.before": "a submission is committed and its client is not answered",
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
    """What the action `raise` raises: a fault that no code expects."""


@dataclass(slots=True)
class Armed:
    """One failpoint that acts on the `left`-th time that it is passed, and never again."""

    action: Action
    left: int


_armed: dict[str, Armed] = {}
_guard = threading.Lock()
_log: Path | None = None
_delay_s = DELAY_MS / 1_000


def hit(name: str) -> None:
    """Pass a failpoint."""
    if _armed:
        _pass(name)


def _pass(name: str) -> None:
    with _guard:
        armed = _armed.get(name)
        if armed is None:
            return
        armed.left -= 1
        if armed.left > 0:
            return
        del _armed[name]
        _note(f"{name} {armed.action} {os.getpid()}\n")
    _act(name, armed.action)


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
    # To this very thread: no instruction of it is executed after the signal.
    number = signal.SIGKILL if action is Action.KILL else signal.SIGSTOP
    signal.pthread_kill(threading.get_ident(), number)


def arm(environment: Mapping[str, str]) -> None:
    """Arm what the environment names; without the variable nothing is armed."""
    global _log, _delay_s
    _armed.clear()
    text = environment.get(VARIABLE, "")
    if not text:
        return
    if environment.get(TESTING) != "1":
        raise Misconfigured(
            f"{VARIABLE} is set: it makes processes die on purpose, for tests alone.",
            setting=VARIABLE,
            hint=f"Unset it, or set {TESTING}=1 if this is a test.",
        )
    _log = Path(environment[LOG]) if environment.get(LOG) else None
    _delay_s = int(environment.get(DELAY, DELAY_MS)) / 1_000
    _armed.update(_read(each) for each in text.split(","))


def _read(text: str) -> tuple[str, Armed]:
    name, _, rest = text.partition(":")
    action, _, count = rest.partition(":")
    known = name in NAMES and action in set(Action) and (not count or count.isdigit())
    if not known:
        raise Misconfigured(
            f"{VARIABLE} has {text!r}, which is no name:action[:count].",
            setting=VARIABLE,
            hint=f"Actions: {', '.join(Action)}. Names: {', '.join(NAMES)}.",
        )
    return name, Armed(Action(action), int(count or 1))


arm(os.environ)
