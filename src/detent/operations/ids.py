"""Finds ids by their first or last characters, for people who type them."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from detent.operations import schemas
from detent.operations.context import Core, check_choice
from detent.operations.cursor_pages import of_project
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import ReadTransaction
from detent.store.types import Query

TABLES = {"task": "tasks", "job": "jobs", "run": "runs"}
#: The maximum number of ids in a response.
MAX_IDS = 10
#: The suffix of a run's id, or its beginning.
RUN_SUFFIX = re.compile(r"-(r\d*)?$")
#: The page size of a search by last characters, and the maximum number of pages.
PAGE, MAX_PAGES = 500, 20


@operation(Scope.READ, "GET", "/api/ids/{part}")
def find_ids(core: Core, caller: Caller, *, part: str, kind: str = "task") -> schemas.Ids:
    """Find the ids of tasks, jobs or runs that begin or end with a text, or are equal to it.

    At most ten ids are returned; `more` is true if there are others.
    """
    check_choice(kind, TABLES, "kind")
    with core.store.read() as view:
        # A run has no project; that of its job counts.
        where = {} if kind == "run" else of_project(caller, {}, None)
        exact = view.page(Query(TABLES[kind], {**where, "id": part}, limit=1))
        rows = iter(exact) if exact else _shortened(view, Query(TABLES[kind], where, "id"), part)
        seen = (row["id"] for row in rows if _may_see(view, caller, row))
        found = list(islice(dict.fromkeys(islice(seen, 2 * MAX_IDS)), MAX_IDS + 1))
    return {"items": found[:MAX_IDS], "more": len(found) > MAX_IDS}


def _shortened(view: ReadTransaction, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    return chain(_beginning(view, query, part), _ending(view, query, part))


def _beginning(view: ReadTransaction, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    """The rows whose id begins with the text."""
    if query.table == "runs":
        yield from _runs_beginning(view, query, part)
        return
    for row in view.page(query._replace(after=(part, part), limit=PAGE)):
        if not str(row["id"]).startswith(part):
            return
        yield row


def _runs_beginning(view: ReadTransaction, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    """The runs whose id begins with the text. They are in the order of their jobs."""
    job = RUN_SUFFIX.sub("", part)
    of_jobs = {**query.where, "job_id": (">=", job)}
    for row in view.page(query._replace(where=of_jobs, limit=PAGE)):
        if not str(row["job_id"]).startswith(job):
            return
        if str(row["id"]).startswith(part):
            yield row


def _ending(view: ReadTransaction, query: Query, part: str) -> Iterator[Mapping[str, Any]]:
    """The rows whose id ends with the text, from a bounded number of pages."""
    after = None
    for _ in range(MAX_PAGES):
        rows = view.page(query._replace(after=after, limit=PAGE, search=part))
        yield from (row for row in rows if str(row["id"]).endswith(part))
        if len(rows) < PAGE:
            return
        after = (rows[-1]["id"], rows[-1]["id"])


def _may_see(view: ReadTransaction, caller: Caller, row: Mapping[str, Any]) -> bool:
    if caller.project is None or "project" in row:
        return True
    return any(job.project == caller.project for job, _ in view.jobs([row["job_id"]]))
