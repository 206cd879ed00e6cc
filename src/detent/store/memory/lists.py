"""Lists of the memory store: the rows that match a query, and one page of them."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from detent.errors import Invalid
from detent.kernel.entities import Checkpoint, Job, Run, Step, Task, Wait
from detent.kernel.wait_kinds import ANSWERED, PERMISSION
from detent.store.memory.tables import Evidence, JobRow, Queued, Tables, TaskRow
from detent.store.rows import Question, job_of_run
from detent.store.table_names import LISTED, SEARCHED
from detent.store.types import Query

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "tasks": (*Task._fields, *TaskRow._fields[1:]),
    "jobs": (*Job._fields, *JobRow._fields[1:]),
    "runs": Run._fields,
    "steps": Step._fields,
    "waits": Wait._fields,
    "queue": Queued._fields,
    "checkpoints": Checkpoint._fields,
    "evidence": Evidence._fields,
    "questions": Question._fields,
}
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matching(tables: Tables, query: Query, *columns: str) -> list[dict[str, Any]]:
    """Every row that matches. The column names are checked first."""
    _check(query.table, "table", COLUMNS)
    for column in (*query.where, *filter(None, (query.order,)), *columns):
        _check(column, "column", COLUMNS[query.table])
    rows = [_row(query.table, row) for row in _stored(tables, query.table)]
    wanted = query.where.items()
    found = [row for row in rows if all(_fits(row[name], want) for name, want in wanted)]
    return [row for row in found if _contains(tables, row, query)] if query.search else found


def _stored(tables: Tables, table: str) -> Iterable[tuple[Any, ...]]:
    return _questions(tables) if table == "questions" else getattr(tables, table).values()


def _questions(tables: Tables) -> Iterator[Question]:
    for wait in tables.waits.values():
        job = tables.jobs[wait.job_id].job
        if wait.kind in ANSWERED - {PERMISSION} and job.task_id is None:
            of_job = (job.project, job.intent, job.priority, job.state)
            of_wait = (wait.name, wait.kind, wait.begun_at, wait.step, wait.due_at, wait.detail)
            yield Question(job.id, *of_wait, *of_job)


def _contains(tables: Tables, row: Mapping[str, Any], query: Query) -> bool:
    texts = [str(row[name] or "") for name in SEARCHED[query.table]]
    if query.table in ("jobs", "runs"):
        texts.append(_title(tables, row["id"] if query.table == "jobs" else row["job_id"]))
    return any(query.search.lower() in text.lower() for text in texts)


def _title(tables: Tables, job_id: str) -> str:
    """The title of the task of a job."""
    task_id = tables.jobs[job_id].job.task_id
    return "" if task_id is None else tables.tasks[task_id].title


def _check(given: str, field: str, allowed: Iterable[str]) -> None:
    if given not in allowed:
        raise Invalid(f"there is no {field} {given}", field=field, given=given, allowed=allowed)


def _row(table: str, row: tuple[Any, ...]) -> dict[str, Any]:
    """Column to value; the columns of a task or job are merged with those of its row."""
    values = (*row[0], *row[1:]) if table in ("tasks", "jobs") else row
    plain = [list(value) if isinstance(value, tuple) else value for value in values]
    return dict(zip(COLUMNS[table], plain, strict=True))


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return value in wanted
    if isinstance(wanted, tuple):
        sign, bound = wanted
        return value is not None and OPERATORS[sign](value, bound)
    if isinstance(value, list):
        return wanted in value
    return bool(value == wanted)


def page(rows: list[dict[str, Any]], query: Query) -> list[dict[str, Any]]:
    """The rows after the cursor in the requested order; a missing value sorts first."""
    key = LISTED[query.table]

    def place(value: Any, name: str) -> tuple[bool, Any, str]:
        return (value is not None, value, name)

    by_job = query.table == "runs" and query.order in ("", "id")
    order = "job_id" if by_job else query.order or key

    def place_of(row: Mapping[str, Any]) -> tuple[bool, Any, str]:
        return place(row[order], row[key])

    rows.sort(key=place_of, reverse=query.descending)
    if query.after is not None:
        value, name = query.after
        last = place(job_of_run(name) if by_job else value, name)
        passed = operator.lt if query.descending else operator.gt
        rows = [row for row in rows if passed(place_of(row), last)]
    return rows[: query.limit]
