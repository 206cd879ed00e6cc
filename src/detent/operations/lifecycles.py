"""Lifecycles: list and show them, install and remove documents, migrate tasks to a new version."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

from detent.diagrams.drawing import outline
from detent.engine import CommandRequest
from detent.errors import DetentError, Forbidden, Invalid, Misconfigured, NotFound
from detent.kernel import commands as c
from detent.kernel import lifecycle_document, lifecycle_json, lifecycle_lint
from detent.kernel.commands import lifecycle_commands as lc
from detent.kernel.decide.lifecycles import state_after
from detent.kernel.lifecycle import Lifecycle, normalise
from detent.kernel.state_mapping import mapped
from detent.kernel.state_shapes import APPEARANCES
from detent.kernel.task_lifecycle import (
    TaskLifecycle,
    TaskLifecycles,
    choices,
    in_use,
    named,
    newest,
)
from detent.lifecycle_config import read_file
from detent.lifecycle_search import SearchResult, Violation, search
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.limits import FILE
from detent.operations.registry import Caller, Scope, operation
from detent.quantity import quantity
from detent.settings import Settings
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.task_lifecycles import OPTIONAL, all_lifecycles, find, shipped_document
from detent.task_lifecycles.document_file import located, read_document

#: How many tasks one request migrates; the answer says where the next one begins.
MAX_MIGRATED = 1_000
Row = Mapping[str, Any]


@operation(Scope.READ, "GET", "/api/lifecycles")
def list_lifecycles(core: Core, caller: Caller, *, counts: bool = False) -> schemas.Lifecycles:
    """List the lifecycles of tasks, jobs, plan steps and runs as tables."""
    looks = {
        look.value: cast(schemas.Appearance, asdict(each)) for look, each in APPEARANCES.items()
    }
    with core.store.read() as view:
        known = _known(view)
        tasks = dict(view.count_by(Query("tasks"), "lifecycle")) if counts else None
    return {
        "lifecycles": [_exported(each) for each in all_lifecycles(known).values()],
        "defaults": {entry.value: each.id for entry, each in choices(known).defaults.items()},
        "tasks": tasks,
        "appearances": looks,
    }


@operation(Scope.READ, "GET", "/api/lifecycles/{name}")
def show_lifecycle(core: Core, caller: Caller, *, name: str) -> schemas.Lifecycle:
    """Show one lifecycle as a table."""
    return _exported(_found(core, name))


@operation(Scope.READ, "GET", "/api/lifecycles/{name}/diagram")
def lifecycle_diagram(core: Core, caller: Caller, *, name: str) -> schemas.Diagram:
    """Show the diagram of a lifecycle: the positions of its states, and the paths of its arrows."""
    return cast(schemas.Diagram, outline(_found(core, name)))


@operation(Scope.READ, "GET", "/api/lifecycles/{name}/document")
def show_lifecycle_document(core: Core, caller: Caller, *, name: str) -> schemas.LifecycleDocument:
    """Show the document of a lifecycle of tasks.

    `name` is a name, for the newest version, or a name and a version, such as `release@2`.
    """
    with core.store.read() as view:
        known = _known(view)
        found = named(known, normalise(name))
        if found is None:
            listed = list(all_lifecycles(known))
            raise NotFound(
                f"There is no lifecycle {name!r}. Known: {', '.join(listed)}.",
                code="unknown_lifecycle",
                known=listed,
            )
        own = view.rows("lifecycles").get(found.id)
    return {"id": found.id, "document": shipped_document(found) if own is None else own["document"]}


@operation(Scope.READ, "GET", "/api/mapping")
def state_mapping(core: Core, caller: Caller) -> schemas.Mapping:
    """Map each task state to the counterpart's state and to the MCP and A2A task states."""
    with core.store.read() as view:
        rows = mapped(_known(view).values())
    return {"items": cast(list[schemas.MappedState], rows)}


def _known(view: ReadTransaction) -> TaskLifecycles:
    return {each.id: each for each in in_use(view.lifecycles())}


def _found(core: Core, name: str) -> Lifecycle:
    with core.store.read() as view:
        return find(name, _known(view))


def _exported(lifecycle: Lifecycle) -> schemas.Lifecycle:
    return cast(schemas.Lifecycle, lifecycle_json.export(lifecycle))


# ---- install and remove ----------------------------------------------------------------------


class Installed(NamedTuple):
    """A lifecycle that is installed; if it is new, the search that it passed."""

    lifecycle: TaskLifecycle
    search: SearchResult | None


@operation(Scope.ADMIN, "POST", "/api/lifecycles")
def install_lifecycle(
    core: Core, caller: Caller, *, document: Any, file: str = "document"
) -> schemas.InstalledLifecycle:
    """Install a lifecycle, or a new version of one; the same document again changes nothing.

    `document` is the text of a TOML file, or its values as an object. A new one is checked, and
    every state that its tasks can reach is searched; `search` says how many there are, and whether
    all were visited.
    """
    _whole_installation(caller)
    lifecycle, found = install(core, caller.actor, document, file)
    return {
        "id": lifecycle.id,
        "name": lifecycle.name,
        "version": lifecycle.version,
        "changed": found is not None,
        "search": None if found is None else _searched(found),
    }


def _searched(found: SearchResult) -> schemas.LifecycleSearch:
    return {
        "states": found.states,
        "max_states": found.max_states,
        "depth": found.depth,
        "exhausted": found.exhausted,
    }


def install(
    core: Core, actor: c.Actor, given: Any, file: str, *, shipped: bool = False
) -> Installed:
    """Check a document and install it, unless it is installed already.

    One that is shipped with detent is not searched: the tests do that.
    """
    text = given if isinstance(given, str) else None
    document, lifecycle = _read(given, file)
    with core.store.read() as view:
        known = view.lifecycles()
        before = {each.id: each for each in in_use(known)}.get(lifecycle.id)
        flaws = [*lifecycle_lint.flaws(lifecycle), *lifecycle_lint.conflicts(lifecycle, known)]
    if before == lifecycle:
        return Installed(lifecycle, None)
    if flaws:
        raise _flawed(lifecycle, flaws, text, file)
    found = None if shipped else search(lifecycle)
    if found is not None and found.violation is not None:
        raise _violated(lifecycle, found, found.violation)
    core.engine.do(lc.InstallLifecycle(document), actor)
    core.contexts.clear()
    return Installed(lifecycle, found)


def _read(given: Any, file: str) -> tuple[Mapping[str, Any], TaskLifecycle]:
    if isinstance(given, str):
        return read_document(given, file)
    return given, lifecycle_document.read(given)


def _flawed(
    lifecycle: TaskLifecycle,
    flaws: Sequence[lifecycle_lint.Flaw],
    text: str | None,
    file: str,
) -> Invalid:
    """The error of a document that is well-formed and makes no sense; lists all flaws."""
    listed = [flaw.plain() for flaw in flaws] if text is None else located(text, flaws)
    place = "" if text is None else f"{file}:{listed[0]['line']}: "
    more = f" ({quantity(len(flaws) - 1, 'more error')})" if len(flaws) > 1 else ""
    error = Invalid(
        f"{place}{flaws[0].field}: {flaws[0].text}{more}",
        code="invalid_lifecycle",
        field=flaws[0].field,
        given=lifecycle.name,
    )
    error.details["errors"] = listed
    return error


def _violated(lifecycle: TaskLifecycle, found: SearchResult, violation: Violation) -> Invalid:
    """The error of a document whose tasks can break a promise, with the shortest way to it."""
    error = Invalid(
        "\n".join([f"The lifecycle {lifecycle.name} was not installed.", *violation.lines()]),
        code="invalid_lifecycle",
        field="rows",
        given=lifecycle.name,
    )
    error.details |= {"violation": violation.plain(), "search": _searched(found)}
    return error


@operation(Scope.ADMIN, "DELETE", "/api/lifecycles/{name}")
def remove_lifecycle(core: Core, caller: Caller, *, name: str) -> schemas.RemovedLifecycle:
    """Remove a lifecycle with all its versions; refused while tasks have it."""
    _whole_installation(caller)
    removed = core.engine.do(lc.RemoveLifecycle(normalise(name)), caller.actor)
    core.contexts.clear()
    return {"name": normalise(name), "removed": removed}


def _whole_installation(caller: Caller) -> None:
    if caller.project is not None:
        raise Forbidden(
            f"{caller.name} may change only project {caller.project!r}; lifecycles belong to the "
            "whole installation."
        )


# ---- the configuration file ------------------------------------------------------------------


def save_lifecycles(core: Core) -> None:
    """Install the lifecycles of the configuration file, and those of integrations that are used.

    One that is no longer named stays.
    """
    shipped = _of_integrations(core.settings)
    for name, path in {**shipped, **core.lifecycle_files}.items():
        text = read_file(name, path)
        found = read_document(text, path.name)[1]
        if found.name != name:
            raise Misconfigured(
                f"{path.name} has the lifecycle {found.name}, not {name}.",
                setting=f"lifecycles.{name}",
            )
        install(core, FILE, text, path.name, shipped=shipped.get(name) == path)


def _of_integrations(settings: Settings) -> dict[str, Path]:
    """The lifecycle of pull requests, if a forge is used."""
    return dict(OPTIONAL) if settings.github_token or settings.gitlab_token else {}


# ---- migration -------------------------------------------------------------------------------


@operation(Scope.ADMIN, "POST", "/api/lifecycles/{name}/migrate")
def migrate_lifecycle(
    core: Core, caller: Caller, *, name: str, dry_run: bool = False, after: str = ""
) -> schemas.Migrated:
    """Continue live tasks of older versions of a lifecycle under its newest version.

    At most 1,000 tasks in one request: give `next` of the answer as `after` until it is null. A
    task whose state has no counterpart stays on its version and is listed in `stranded`.
    """
    _whole_installation(caller)
    with core.store.read() as view:
        known = _known(view)
        target = newest(known).get(normalise(name))
        if target is None:
            raise NotFound(
                f"There is no lifecycle {name!r} of tasks.",
                code="unknown_lifecycle",
                known=newest(known),
            )
        rows = _live_tasks(view, known, target, after)
    stranded = [row for row in rows if _state_after(known, target, row) is None]
    moving = [row for row in rows if row not in stranded]
    if not dry_run:
        refused = list(_migrate(core, caller, target, moving))
        moving = [row for row in moving if row not in refused]
        stranded += refused
    return {
        "lifecycle": target.id,
        "dry_run": dry_run,
        "migrated": len(moving),
        "stranded": [
            {"id": row["id"], "state": row["state"], "lifecycle": row["lifecycle"]}
            for row in sorted(stranded, key=lambda row: str(row["id"]))
        ],
        "next": rows[-1]["id"] if len(rows) == MAX_MIGRATED else None,
    }


def _live_tasks(
    view: ReadTransaction, known: TaskLifecycles, target: TaskLifecycle, after: str
) -> Sequence[Row]:
    """Tasks of older versions in states that are not terminal, by id, after this one."""
    older = [each for each in known.values() if each.name == target.name and each is not target]
    states = {name for each in older for name in each.state_names if name not in each.terminal}
    where = {
        "lifecycle": [each.id for each in older],
        "state": sorted(states),
        "id": (">", after),
    }
    return view.page(Query("tasks", where, "id", limit=MAX_MIGRATED)) if older else ()


def _state_after(known: TaskLifecycles, target: TaskLifecycle, row: Row) -> str | None:
    return state_after(known[row["lifecycle"]], target, row["state"])


def _migrate(
    core: Core, caller: Caller, target: TaskLifecycle, rows: Sequence[Row]
) -> Iterator[Row]:
    """Migrate tasks in one transaction; yield those that changed meanwhile and are refused now."""
    requests = [CommandRequest(c.MigrateTask(row["id"], target.id), caller.actor) for row in rows]
    results = core.engine.execute(requests, bulk=True) if requests else []
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, DetentError):
            if result.code != "would_strand":
                raise result
            yield row
