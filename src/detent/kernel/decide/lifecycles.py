"""Decides about lifecycles: install, remove, and continue a task under another version."""

from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel import lifecycle_document, lifecycle_lint
from detent.kernel.commands import lifecycle_commands as lc
from detent.kernel.draft import Draft
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.predicates import has_ended
from detent.kernel.task_lifecycle import TaskLifecycle, newest


def install(draft: Draft, command: lc.InstallLifecycle) -> str:
    """Install a lifecycle; return its id. The same document again changes nothing."""
    new = lifecycle_document.read(command.document)
    known = draft.lifecycles.get(new.id)
    if known == new:
        return new.id
    if known is not None:
        raise Refused(
            f"Version {new.version} of the lifecycle {new.name} exists with other content.",
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
            f"The lifecycle {new.name} has {len(flaws)} errors. {flaws[0].text}",
            code="invalid_lifecycle",
            field=flaws[0].field,
        )
        error.details["errors"] = [flaw.plain() for flaw in flaws]
        raise error
    draft.emit(e.LIFECYCLES, e.LifecycleInstalled(command.document), new.id)
    return new.id


def remove(draft: Draft, command: lc.RemoveLifecycle) -> list[str]:
    """Remove all versions of a lifecycle; return their ids."""
    ids = [each.id for each in draft.lifecycles.values() if each.name == command.name]
    if not ids:
        raise NotFound(
            f"There is no lifecycle {command.name!r}.",
            code="unknown_lifecycle",
            known=newest(draft.lifecycles),
        )
    if command.in_use:
        raise Refused(
            f"{command.in_use} tasks have the lifecycle {command.name}.",
            code="lifecycle_in_use",
            hint=f"List them: `detent list --lifecycle {command.name}`. Delete them first.",
        )
    for each in ids:
        draft.emit(e.LIFECYCLES, e.LifecycleRemoved(), each)
    return ids


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
