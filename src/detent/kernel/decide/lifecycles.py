"""Decides about lifecycles: install, remove, and continue a task under another version."""

from collections.abc import Sequence

from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel import lifecycle_document, lifecycle_lint
from detent.kernel.commands import lifecycle_commands as lc
from detent.kernel.draft import Draft
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.predicates import has_ended
from detent.kernel.task_lifecycle import TaskLifecycle, in_use, newest
from detent.quantity import quantity


def install(draft: Draft, command: lc.InstallLifecycle) -> str:
    """Install a lifecycle; return its id. The same document again changes nothing."""
    new = lifecycle_document.read(command.document)
    known = draft.lifecycles.get(new.id)
    if known == new and not known.removed:
        return new.id
    if known is not None and known != new:
        was = "was removed; it had" if known.removed else "exists with"
        raise Refused(
            f"Version {new.version} of the lifecycle {new.name} {was} other content.",
            code="version_exists",
            hint="A version never changes. Give the document a higher version.",
        )
    before = newest(draft.lifecycles).get(new.name)
    if new.name in LIFECYCLES or (before is not None and before.shipped):
        raise Refused(
            f"The lifecycle {new.name} is a part of detent. Give yours another name.",
            code="lifecycle_name_taken",
        )
    if before is not None and new.version < before.version:
        raise Refused(
            f"The lifecycle {new.name} has version {before.version}; {new.version} is older.",
            code="version_exists",
        )
    flaws = [*lifecycle_lint.flaws(new), *lifecycle_lint.conflicts(new, draft.lifecycles)]
    if flaws:
        error = Invalid(
            f"The lifecycle {new.name} has {quantity(len(flaws), 'error')}. {flaws[0].text}",
            code="invalid_lifecycle",
            field=flaws[0].field,
        )
        error.details["errors"] = [flaw.plain() for flaw in flaws]
        raise error
    draft.emit(e.LIFECYCLES, e.LifecycleInstalled(command.document), new.id)
    return new.id


def remove(draft: Draft, command: lc.RemoveLifecycle) -> list[str]:
    """Remove all versions of a lifecycle; return their ids."""
    found = [each for each in in_use(draft.lifecycles) if each.name == command.name]
    if not found:
        raise NotFound(
            f"There is no lifecycle {command.name!r}.",
            code="unknown_lifecycle",
            known=newest(draft.lifecycles),
        )
    if found[0].shipped:
        raise Refused(
            f"The lifecycle {command.name} is a part of detent and cannot be removed.",
            code="lifecycle_name_taken",
        )
    ids = [each.id for each in found]
    count = _tasks_of(draft, ids)
    if count:
        raise Refused(
            f"{quantity(count, 'task')} {'has' if count == 1 else 'have'} the lifecycle "
            f"{command.name}.",
            code="lifecycle_in_use",
            hint=f"List them: `detent tasks --lifecycle {command.name}`. Delete them first.",
            details={"tasks": count},
        )
    for each in ids:
        draft.emit(e.LIFECYCLES, e.LifecycleRemoved(), each)
    return ids


def _tasks_of(draft: Draft, ids: Sequence[str]) -> int:
    """How many tasks have one of these lifecycles: those of the store, or of earlier commands."""
    counted = sum(draft.tasks_of_lifecycles.get(each, 0) for each in ids)
    return counted or sum(task.lifecycle in ids for task in draft.known_tasks())


def migrate_task(draft: Draft, command: c.MigrateTask) -> str:
    """Continue a task under another version of its lifecycle; return its state there."""
    task = draft.task(command.task_id)
    old, new = draft.lifecycle(task), draft.lifecycles.get(command.lifecycle)
    if new is None or new.name != old.name:
        raise NotFound(
            f"The lifecycle {old.name} has no version {command.lifecycle}.",
            code="unknown_lifecycle",
            known=[each.id for each in draft.lifecycles.values() if each.name == old.name],
        )
    if new.id == old.id or has_ended(draft, task):
        return task.state
    state = state_after(old, new, task.state)
    if state is None:
        raise Refused(
            f"Task {task.id} is {task.state}. Version {new.version} has no state for it in which "
            "its job could continue.",
            code="would_strand",
            hint="Install a version whose `migrate` names one in the same phase.",
        )
    draft.emit(task.id, e.TaskMigrated(new.id, state))
    return state


def state_after(old: TaskLifecycle, new: TaskLifecycle, state: str) -> str | None:
    """The state of a task after its migration; None if its job could not continue there."""
    target = state if state in new.by_state else new.migrations.get(state)
    if target is None or target not in new.by_state:
        return None
    return target if new.phase(target) is old.phase(state) else None
