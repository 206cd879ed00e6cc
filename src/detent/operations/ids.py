"""Ids by a beginning or an end, for people who type them."""

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import of_project
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import Query, Reading

TABLES = {"task": "tasks", "job": "jobs", "run": "runs"}
#: Candidates that are named.
MAX_IDS = 10
#: Rows of a search for an end that are read at once, and in all.
PAGE, MAX_PAGES = 500, 20


@operation(Scope.READ, "GET", "/api/ids/{part}")
def find_ids(core: Core, caller: Caller, *, part: str, kind: str = "task") -> schemas.Ids:
    """The tasks, jobs or runs whose id begins or ends with a text; one with exactly that id alone.

    At most ten are named; `more` says that there are others.
    """
    with core.store.read() as view:
        # A run has no project of its own: it is its job's.
        where = {} if kind == "run" else of_project(caller, {}, None)
        exact = view.page(Query(TABLES[kind], {**where, "id": part}, limit=1))
        rows = iter(exact) if exact else _shortened(view, Query(TABLES[kind], where, "id"), part)
        seen = (row["id"] for row in rows if _sees(view, caller, row))
        found = list(islice(dict.fromkeys(islice(seen, 2 * MAX_IDS)), MAX_IDS + 1))
    return {"items": found[:MAX_IDS], "more": len(found) > MAX_IDS}


def _shortened(view: Reading, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    return chain(_beginning(view, query, part), _ending(view, query, part))


def _beginning(view: Reading, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    """Neighbours in the order of ids."""
    for row in view.page(query._replace(after=(part, part), limit=PAGE)):
        if not str(row["id"]).startswith(part):
            return
        yield row


def _ending(view: Reading, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    """What a search for the text finds, a bounded number of pages."""
    after = None
    for _ in range(MAX_PAGES):
        rows = view.page(query._replace(after=after, limit=PAGE, search=part))
        yield from (row for row in rows if str(row["id"]).endswith(part))
        if len(rows) < PAGE:
            return
        after = (rows[-1]["id"], rows[-1]["id"])


def _sees(view: Reading, caller: Caller, row: Mapping[str, Any]) -> bool:
    if caller.project is None or "project" in row:
        return True
    return any(job.project == caller.project for job, _ in view.jobs([row["job_id"]]))
