"""Broken variants that only real processes or a real disk give away: each is caught."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from detent.failpoints import Action
from detent.store.store_url import open_store
from tests.sampling import sampled
from verification import power_loss
from verification.fault_injection import credentials, environment, fault_cells, races
from verification.fault_injection.environment import Environment
from verification.fault_injection.fault_scenes import LATE_REPORT, Scene
from verification.fault_injection.mutants import MUTANTS
from verification.fault_injection.process_supervisor import ProcessSupervisor
from verification.mutant import applied

#: What a mutant blocks without end is given up after this many seconds.
DEADLINE_S = 8.0
#: A process that was stopped while another of its threads was within a transaction shows nothing:
#: no other worker could take its job. It is tried again.
MAX_TRIES = 8

FEED_READ = Scene("feed.read", "feed", intent="small")

#: The failpoint and what happens there; every mutant of a process is met by one.
CELLS: dict[str, tuple[Scene, Action, str]] = {
    "effect-is-not-looked-up": (Scene("effect.done"), Action.KILL, "P6"),
    "effect-begin-is-not-recorded": (Scene("effect.done"), Action.KILL, "P6"),
    "webhook-leaves-outbox-before-sending": (
        Scene("webhook.sent", "keeper"),
        Action.KILL,
        "Failed",
    ),
    "webhook-cursor-moves-first": (Scene("webhook.filled", "keeper"), Action.KILL, "Failed"),
    "cursor-moves-before-delivery": (FEED_READ, Action.RAISE, "P7"),
    "reader-ahead-of-the-hub-joins": (FEED_READ, Action.DELAY, "P7"),
    "reader-takes-the-hubs-position": (
        Scene("feed.history", "feed", intent="small"),
        Action.DELAY,
        "P7",
    ),
    "step-is-not-recorded": (Scene("effect.begun"), Action.KILL, "P6"),
    "subtask-has-a-new-id-each-time": (Scene("subtask.submitted"), Action.KILL, "P6"),
    "lost-leases-are-never-found": (Scene("run.start"), Action.KILL, "Failed"),
    "key-is-not-remembered": (
        Scene("response.before", "gateway", intent="small"),
        Action.KILL,
        "P2",
    ),
    "schedule-fires-without-a-key": (Scene("schedule.submitted", "keeper"), Action.KILL, "P2"),
    "stopped-worker-is-not-fenced": (LATE_REPORT, Action.STOP, "P5"),
}


def images(where: Path) -> list[str]:
    return power_loss.try_images(power_loss.record(where / "recorded.db", 20), where, 200).problems


def races_of(where: Path) -> list[str]:
    return races.run(lambda: open_store(str(where / "races.db")), 100).problems


def failing(fault: str, where: Path) -> list[str]:
    found: list[str] = []
    for nth in range(1, 12):
        found += power_loss.try_fault(where / f"{nth}.db", fault, nth)[1]
    return found


full_disk = partial(failing, "disk full")
failed_sync = partial(failing, "failed sync")


OTHERS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "verdict-after-decision": (races_of, "P12"),
    "commit-is-not-synced": (images, "P1"),
    "nothing-is-synced": (images, "P1"),
    "failed-sync-is-no-fault": (failed_sync, "P16"),
    "full-disk-is-no-fault": (full_disk, "P16"),
    "fault-is-not-undone": (full_disk, "P16"),
    "login-code-is-a-token": (credentials.run, "credentials"),
    "session-is-a-bearer-token": (credentials.run, "credentials"),
    "session-survives-its-token": (credentials.run, "credentials"),
    "session-makes-sessions": (credentials.run, "credentials"),
}


@pytest.mark.parametrize("name", sampled(CELLS, 4))
def test_a_broken_process_is_caught_at_its_failpoint(
    name: str, supervisor: ProcessSupervisor, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, action, promise = CELLS[name]
    heal = fault_cells._heal

    def heal_soon(*given: Any, **more: Any) -> None:
        monkeypatch.setattr(environment, "DEADLINE_S", DEADLINE_S)
        heal(*given, **more)

    if promise == "Failed":  # only what the mutant hinders is given up so soon
        monkeypatch.setattr(fault_cells, "_heal", heal_soon)
    for attempt in range(MAX_TRIES):
        outcome = fault_cells.run(
            Environment(supervisor, where / f"{attempt}", mutant=name), scene, action
        )
        assert outcome.hit
        if not outcome.blocked:
            break
    assert any(each.startswith(promise) for each in outcome.problems), outcome.problems


@pytest.mark.parametrize("name", sampled(OTHERS, 3))
def test_a_broken_variant_is_caught(name: str, where: Path) -> None:
    look, promise = OTHERS[name]
    with applied(MUTANTS[name]):
        found = look(where)
    assert any(each.startswith(promise) for each in found), found
    assert promise == found[0].split(":")[0]


def test_every_mutant_has_a_catcher() -> None:
    assert {*CELLS, *OTHERS} == set(MUTANTS)
