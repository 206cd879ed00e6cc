"""Cursor pagination: a page costs the same, however many rows there are.

A cursor contains its table, its sort order and the last row; one of another list is refused.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from detent import views
from detent.errors import Invalid, NotFound
from detent.kernel.lifecycle import normalise
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.task_lifecycle import TaskState, newest, state_names
from detent.operations.context import Core, check_choice
from detent.operations.registry import Caller
from detent.store.stale_reads import read_stale
from detent.store.types import Query

MAX_ROWS = 1_000
#: By table, the columns that a page may be sorted by, with the type of their values.
SORTS: Mapping[str, Mapping[str, type]] = {
    "tasks": {"created_at": int, "state_at": int, "priority": str, "id": str},
    "jobs": {"created_at": int, "state_at": int, "rank": int, "id": str},
    "runs": {"queued_at": int, "started_at": int, "ended_at": int, "id": str},
}


def page(
    core: Core,
    table: str,
    where: Mapping[str, Any],
    sort: str,
    cursor: str | None,
    limit: int,
    search: str = "",
) -> tuple[Sequence[Mapping[str, Any]], str | None]:
    """Rows as they are in the store, and the cursor of the next page, if there is one."""
    if not 1 <= limit <= MAX_ROWS:
        raise Invalid(
            f"limit must be from 1 to {MAX_ROWS}, not {limit}.", field="limit", given=limit
        )
    column = check_choice(sort.removeprefix("-"), SORTS[table], "sort")
    after = None if cursor is None else _read_cursor(cursor, table, sort)
    query = Query(table, where, column, sort.startswith("-"), after, limit + 1, search)
    with read_stale(core.store) as view:
        rows = view.page(query)
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], _write_cursor(table, sort, last[column], last["id"])


def of_project(caller: Caller, where: dict[str, Any], project: str | None) -> dict[str, Any]:
    """The filter, restricted to the project that the caller may see."""
    if caller.project is not None and project not in (None, caller.project):
        raise NotFound(f"There is no project {project!r}.", code="not_found")
    only = caller.project or project
    return where if only is None else {**where, "project": only}


def states_from(core: Core, given: str, table: str) -> list[str]:
    """The states of a filter, which are separated by commas."""
    names = [normalise(each.strip()) for each in given.split(",")]
    if table == "tasks":
        known: Sequence[str] = task_states(core, lambda _: True)
    else:
        known = LIFECYCLES[table.removesuffix("s")].state_names
    return [check_choice(name, known, "state", "unknown_state") for name in names]


def task_states(core: Core, wanted: Callable[[TaskState], bool]) -> list[str]:
    """The names of the states of all task lifecycles for which `wanted` holds."""
    with core.store.read() as view:
        return state_names(view.lifecycles(), wanted)


def versions_of(core: Core, given: str) -> list[str]:
    """The ids of all versions of a lifecycle, by its name, or of one: `name@version`."""
    with core.store.read() as view:
        known = dict(view.lifecycles())
    exact = {f"{each.name}@{each.version}": each.id for each in known.values()}
    if normalise(given) in exact:
        return [exact[normalise(given)]]
    name = check_choice(normalise(given), newest(known), "lifecycle")
    return [each.id for each in known.values() if each.name == name]


def listed(core: Core, query: Query) -> list[Any]:
    """All rows of a short list, converted for clients."""
    with core.store.read() as view:
        return [views.shown(row) for row in view.page(query._replace(limit=MAX_ROWS))]


def _write_cursor(table: str, sort: str, value: Any, key: str) -> str:
    text = msgspec.json.encode([table, sort, value, key])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_cursor(cursor: str, table: str, sort: str) -> tuple[Any, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        made_for, made_by, value, key = msgspec.json.decode(
            text, type=tuple[str, str, int | str | None, str]
        )
    except (ValueError, msgspec.MsgspecError):
        raise _wrong_cursor("cursor is not a cursor of this server.", cursor) from None
    if (made_for, made_by) != (table, sort):
        raise _wrong_cursor(
            f"cursor is for {made_for} sorted by {made_by}, not for {table} sorted by {sort}.",
            cursor,
        )
    wanted = SORTS[table][sort.removeprefix("-")]
    if "\0" in key or not (value is None or isinstance(value, wanted)):
        raise _wrong_cursor("cursor is not a cursor of this server.", cursor)
    return value, key


def _wrong_cursor(message: str, cursor: str) -> Invalid:
    hint = "Use the cursor of the previous page of this list, or leave it out for the first page."
    return Invalid(message, field="cursor", given=cursor, hint=hint)
