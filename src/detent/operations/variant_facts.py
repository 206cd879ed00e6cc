"""The variants of a task as they are compared: how each ended, its tests, its cost, its check.

The dashboard shows it, and the policies choose by it. Reads only.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from detent.errors import NotFound
from detent.kernel.checks import CHECKS, says_accept
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Job, Task
from detent.kernel.evidence_types import EvidenceType
from detent.kernel.variants import chosen_of, latest_set, number_of
from detent.operations.review_diffs import MAX_EVIDENCE, MAX_RUNS
from detent.operations.task_states import has_failed, is_done
from detent.store.blobs import Blobs
from detent.store.port import ReadTransaction
from detent.store.types import Query

#: The evidence whose counts of passed and failed tests are read, and how much of it.
TEST_COUNTS = "test-results.json"
MAX_TEST_BYTES = 100_000
#: The fields of that file that count what did not pass.
FAILING = ("failed", "failures", "errors")

Row = Mapping[str, Any]


class Tests(NamedTuple):
    """The test results of some runs: their evidence, and the counts if they can be read."""

    evidence: Sequence[Row] = ()
    passed: int | None = None
    failed: int | None = None


class Check(NamedTuple):
    """The check of a variant. `accept` is None until the checker has ended well."""

    task: Task
    accept: bool | None


class VariantFacts(NamedTuple):
    """One variant: what is known about its work."""

    number: int
    task: Task
    job: Job | None
    #: Whether it has ended well, and whether it has ended without success.
    done: bool
    failed: bool
    runs: Sequence[Row]
    tests: Tests
    check: Check | None

    @property
    def passes(self) -> bool | None:
        """Whether it has ended well, no test failed and its checker accepts it; None: open."""
        if self.failed or (self.tests.failed or 0) > 0:
            return False
        if not self.done:
            return None
        if "checker" not in self.task.options:
            return True
        if self.check is None:
            return None
        return self.check.accept


def subtasks_of(view: ReadTransaction, task: Task) -> list[Task]:
    """The direct subtasks of a task: its variants, their checks, and others."""
    below = [child for parent, child in view.children([task.id]) if parent == task.id]
    return [each for each, _ in view.tasks(below)] if below else []


def variants_in(task: Task, subtasks: Sequence[Task]) -> list[Task]:
    """The variants among the subtasks from which one is or was chosen."""
    chosen = chosen_of(task.options)
    return latest_set(subtasks, task.job_id if chosen is None else chosen["job_id"])


def facts_of(
    view: ReadTransaction, blobs: Blobs, task: Task, subtasks: Sequence[Task]
) -> list[VariantFacts]:
    """What is known about the variants of a task, by number."""
    found = variants_in(task, subtasks)
    jobs = {job.id: job for job, _ in view.jobs([each.job_id for each in found if each.job_id])}
    checks = _checks(view, subtasks)
    return [_facts(view, blobs, each, jobs, checks) for each in found]


def _facts(
    view: ReadTransaction,
    blobs: Blobs,
    task: Task,
    jobs: Mapping[str, Job],
    checks: Mapping[str, Check],
) -> VariantFacts:
    runs = runs_of_task(view, task)
    done = is_done(view, task)
    job = jobs.get(task.job_id or "")
    tests = tests_in(blobs, evidence_of(view, [row["id"] for row in runs]))
    number, failed = number_of(task) or 0, has_failed(view, task)
    return VariantFacts(number, task, job, done, failed, runs, tests, checks.get(task.id))


def runs_of_task(view: ReadTransaction, task: Task) -> Sequence[Row]:
    """All runs of a task, oldest first."""
    jobs = list(jobs_of_task(task.id, task.jobs))
    return view.page(Query("runs", {"job_id": jobs}, "queued_at", limit=MAX_RUNS)) if jobs else ()


def duration_us(run: Row) -> int:
    """How long a run took; 0 while it has not ended."""
    began, ended = run["started_at"] or run["queued_at"], run["ended_at"]
    return 0 if ended is None else max(0, ended - began)


def evidence_of(view: ReadTransaction, run_ids: Sequence[str]) -> Sequence[Row]:
    """The evidence of these runs, oldest first."""
    query = Query("evidence", {"run_id": list(run_ids)}, "at", limit=MAX_EVIDENCE)
    return view.page(query) if run_ids else ()


def tests_in(blobs: Blobs, evidence: Iterable[Row]) -> Tests:
    """The test results among evidence, oldest first, with the counts of the newest."""
    kind = EvidenceType.TEST_RESULT.value
    rows = [row for row in evidence if row["kind"] == kind]
    counted = [row for row in rows if row["file"].rpartition("/")[2] == TEST_COUNTS]
    counts = _counts(blobs, counted[-1]) if counted else {}
    failing = [counts[name] for name in FAILING if name in counts]
    return Tests(rows, counts.get("passed"), sum(failing) if failing else None)


def _counts(blobs: Blobs, row: Row) -> dict[str, int]:
    """The numbers in a file of test results; an agent has written it, so it may be anything."""
    if row["size"] > MAX_TEST_BYTES:
        return {}
    try:
        found = json.loads(b"".join(blobs.read(row["sha256"])))
    except (NotFound, ValueError, RecursionError):
        return {}
    counts = found.items() if isinstance(found, dict) else ()
    return {name: each for name, each in counts if type(each) is int and each >= 0}


def _checks(view: ReadTransaction, subtasks: Sequence[Task]) -> dict[str, Check]:
    """By the id of the checked task, its last check."""
    checkers = [each for each in subtasks if each.options and CHECKS in each.options]
    jobs = [each.job_id for each in checkers if each.job_id]
    results = {job.id: job.result for job, _ in view.jobs(jobs)} if jobs else {}
    found = {}
    for each in checkers:
        accept = says_accept(results.get(each.job_id or "")) if is_done(view, each) else None
        if accept is None and has_failed(view, each):
            accept = False
        found[str(each.options[CHECKS]["task_id"])] = Check(each, accept)
    return found
