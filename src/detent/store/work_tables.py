"""The tables of active and ended tasks and jobs, and what a set of jobs writes in them.

SQLite and PostgreSQL have the same columns.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from detent.kernel.entities import Job, Run, Task
from detent.store.job_sets import JobSet
from detent.store.rows import CODED, TEXTS, VALUE, Kind, columns

#: The fields of a run that the row of its job has, and their columns there.
RUN_FACTS = tuple(each for each in columns(Run) if each not in ("id", "job_id", "step"))
RUN_COLUMNS = tuple(f"run_{each}" for each in RUN_FACTS)


class Table(NamedTuple):
    """The tables of tasks or of jobs."""

    active: str
    ended: str
    columns: tuple[str, ...]
    coded: Mapping[str, Kind]
    #: The column of an active row with the id of the member.
    member: str


TASKS = Table(
    "active_tasks",
    "ended_tasks",
    (*columns(Task), "version", "title", "payload", "tags", "commits"),
    {**CODED[Task], "payload": VALUE, "tags": TEXTS},
    "id",
)
JOBS = Table(
    "active_jobs",
    "ended_jobs",
    (*columns(Job), *RUN_COLUMNS, "version", "payload", "commits"),
    {**CODED[Job], "payload": VALUE},
    "root_id",
)


def tables_of(jobs: JobSet) -> tuple[Table, ...]:
    """The tables that a set writes in, those of tasks first."""
    return (TASKS, JOBS) if jobs.task else (JOBS,)


def versions_of(jobs: JobSet, table: Table) -> tuple[int, int]:
    """The versions of the rows of a table before and after."""
    return jobs.job_versions if table is JOBS else jobs.task_versions


def written_columns(jobs: JobSet, table: Table) -> Iterator[tuple[str, Any]]:
    """The columns that a set writes in a table, without the ids of commits."""
    yield from (jobs.job if table is JOBS else jobs.task).items()
    if table is JOBS:
        for name, column in zip(RUN_FACTS, RUN_COLUMNS, strict=True):
            if name in jobs.run:
                yield column, jobs.run[name]
    yield "version", versions_of(jobs, table)[1]
