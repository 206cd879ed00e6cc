"""Checks of installed lifecycles: installed, used, removed; rebuilt, verified and trimmed."""

from functools import partial
from typing import Any

from detent.integrity import hash_chain
from detent.integrity.rebuild import rebuild
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.commands import lifecycle_commands as lc
from detent.testing.audit import picture
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    claim_one,
    complete,
    do,
    names,
    outcome,
    refusal,
    submit_task,
    task_of,
    together,
)


def _row(source: str | None, event: str, target: str, *who: str) -> dict[str, Any]:
    row = {"event": event, "to": target, "who": list(who), "why": "the check does it"}
    return row if source is None else {**row, "from": source}


def _rule(when: str, *then: str) -> dict[str, Any]:
    return {"when": when, "then": list(then)}


def document(version: int = 1, gate: str = "sign_off") -> dict[str, Any]:
    """A lifecycle whose tasks wait for a person in the state `gate` after their job."""
    live = ("idea", "in_line", "in_hand", "stuck", gate)
    return {
        "name": "signed_work",
        "version": version,
        "title": "Work that a person signs off",
        "initial": "idea",
        "states": {
            "idea": {"meaning": "it is stored"},
            "in_line": {"meaning": "it waits for a worker", "phase": "queued"},
            "in_hand": {"meaning": "a worker runs it", "phase": "working"},
            "stuck": {"meaning": "it cannot continue", "phase": "blocked"},
            gate: {"meaning": "a person decides", "waits_for_person": True},
            "signed": {"meaning": "it is done", "terminal": True, "retention": "done"},
            "dropped": {"meaning": "it is cancelled", "terminal": True, "retention": "cancelled"},
        },
        "rows": [
            _row(None, "task_created", "idea", "gateway"),
            _row("idea", "task_queued", "in_line", "person"),
            _row("in_line", "task_started", "in_hand", "worker"),
            _row("in_line", "task_blocked", "stuck", "engine"),
            _row("in_hand", "task_blocked", "stuck", "worker"),
            _row("stuck", "task_unblocked", "in_line", "engine", "keeper", "person"),
            _row("in_hand", "task_ready", gate, "worker"),
            _row(gate, "task_signed", "signed", "person"),
            _row(gate, "task_sent_back", "in_line", "person"),
            *(_row(each, "task_cancelled", "dropped", "person", "engine") for each in live),
        ],
        "rules": [
            {**_rule("run_started", "task_started"), "in": ["in_line"]},
            _rule("job_completed", "task_ready"),
            _rule("job_failed", "task_blocked"),
            _rule("job_cancelled", "task_cancelled"),
        ],
        "queues": ["task_queued", "task_sent_back"],
        "rounds": {"events": ["task_sent_back"], "limit": 1},
    }


def install(case: Case, **fields: Any) -> str:
    answer: str = do(case.engine, lc.InstallLifecycle(document(**fields)))
    return answer


def worked(case: Case, **fields: Any) -> str:
    """A task of the lifecycle that waits for a person."""
    task = submit_task(case.engine, **{"lifecycle": "signed_work", **fields})
    complete(case.engine, claim_one(case.engine))
    return task


@check
def an_installed_lifecycle_is_used(case: Case) -> None:
    assert install(case) == "signed_work"
    assert install(case) == "signed_work"
    task = worked(case)
    assert do(case.another(), c.SendEvent(task, "task_sent_back", "once more")) == "in_line"
    complete(case.engine, claim_one(case.engine))
    assert refusal(case.engine, c.SendEvent(task, "task_sent_back")) == "rounds_used"
    assert do(case.engine, c.SendEvent(task, "task_signed")) == "signed"
    with case.store.read() as view:
        assert names(view, e.LIFECYCLES) == ["lifecycle_installed"]
        assert names(view, task)[-1] == "task_signed"


@check
def a_version_never_changes(case: Case) -> None:
    install(case)
    assert refusal(case.engine, lc.InstallLifecycle(document(gate="look"))) == "version_exists"
    case.engine.do(lc.RemoveLifecycle("signed_work"), c.Actor("person:ann"))
    again = lc.InstallLifecycle(document(gate="look"))
    assert refusal(case.another(), again) == "version_exists", "caches of other processes differ"
    assert install(case) == "signed_work"
    assert task_of(case.store, worked(case)).state == "sign_off"


@check
def a_lifecycle_that_tasks_have_is_not_removed(case: Case) -> None:
    install(case)
    task = worked(case)
    remove = lc.RemoveLifecycle("signed_work")
    assert refusal(case.another(), remove) == "lifecycle_in_use"
    do(case.engine, c.SendEvent(task, "task_signed"))
    assert refusal(case.engine, remove) == "lifecycle_in_use", "its history needs the document"
    do(case.engine, c.DeleteTask(task))
    assert do(case.another(), remove) == ["signed_work"]
    submit = c.SubmitTask("late", "p", "signed_work", "dig", "cli")
    assert refusal(case.engine, submit) == "unknown_lifecycle"
    assert refusal(case.engine, remove) == "unknown_lifecycle"
    assert verify(case.store).differences == []


@check
def a_removal_and_a_submission_exclude_each_other(case: Case) -> None:
    """Whichever is first: never is there a task of a lifecycle that was removed."""
    engines = case.others(3)
    for number in range(4):
        do(case.engine, lc.InstallLifecycle(document(number + 1)))
        wanted = "signed_work" if number == 0 else f"signed_work@{number + 1}"
        submits = [
            c.SubmitTask(f"t-{number}-{index}", "p", wanted, "dig", "cli") for index in range(2)
        ]
        removed, *submitted = together(
            partial(outcome, engines[0], lc.RemoveLifecycle("signed_work")),
            *(
                partial(outcome, engine, each)
                for engine, each in zip(engines[1:], submits, strict=True)
            ),
        )
        created = [each for each in submitted if each != "unknown_lifecycle"]
        assert (removed == "lifecycle_in_use") == bool(created), (removed, submitted)
        for task in created:
            do(case.engine, c.CancelTask(task))
            do(case.engine, c.DeleteTask(task))
        if created:
            do(case.engine, lc.RemoveLifecycle("signed_work"))


@check
def tasks_stay_on_their_version_until_they_are_migrated(case: Case) -> None:
    install(case)
    old = worked(case)
    moved = {"migrate": {"sign_off": "look"}}
    versions = [document(2, "look") | moved, document(3, "look"), document(4, "look") | moved]
    ids = [do(case.engine, lc.InstallLifecycle(each)) for each in versions]
    assert ids == ["signed_work@2", "signed_work@3", "signed_work@4"]
    assert refusal(case.engine, c.MigrateTask(old, "signed_work@3")) == "would_strand"
    assert task_of(case.store, old).lifecycle == "signed_work"
    assert do(case.another(), c.MigrateTask(old, "signed_work@4")) == "look"
    assert task_of(case.store, old).lifecycle == "signed_work@4"
    assert do(case.engine, c.SendEvent(old, "task_signed")) == "signed"


@check
def lifecycles_are_rebuilt_and_survive_a_trim(case: Case) -> None:
    install(case)
    done = worked(case)
    do(case.engine, c.SendEvent(done, "task_signed"))
    do(case.engine, c.DeleteTask(done))
    before = picture(case.store)
    rebuild(case.store, case.engine.lifetimes.lease_us)
    assert picture(case.store) == before
    hash_chain.extend_chain(case.store)
    live = worked(case)
    assert hash_chain.trim(case.store) > 0
    assert verify(case.store).differences == []
    rebuild(case.store, case.engine.lifetimes.lease_us)
    assert do(case.another(), c.SendEvent(live, "task_signed")) == "signed"
    assert verify(case.store).differences == []
