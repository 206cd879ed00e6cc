"""Checkers: the work of a task is checked by another intent before a person reviews it.

The checker is a subtask of the checked task, so that the task waits for it, cancels it and pays for
it. It is submitted in the transaction that ends the work.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from detent.app.subtasks import derived_id
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.acceptance import is_acceptance
from detent.kernel.checks import CHECKS, says_accept
from detent.kernel.entities import Task
from detent.operations.review_diffs import DIFF_FILE
from detent.redaction import redact_value
from detent.store.types import Query
from detent.submission.subtask import subtask_of_task
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient

#: How much of a diff the payload of a checker has.
LONGEST_DIFF = 100_000
#: The evidence with the findings of a checker.
FINDINGS = "check.json"


# ---- the checked work ------------------------------------------------------------------------


def with_check(run: ActiveRun, report: c.CompleteRun, client: EngineClient) -> c.Report:
    """The report of a successful run, with the submission of its checker if it has one."""
    task, checker = run.held.task, run.held.job.options.get("checker")
    if task is None or checker is None or not _is_checked(run, task):
        return report
    try:
        return replace(report, check=_command(run, task, checker, report, client))
    except DetentError as error:
        return _failed(run, checker, error)


def concerns(run: ActiveRun) -> bool:
    """Whether the run is checked or is a check: its end reads the store, which may block."""
    options = run.held.job.options
    return bool(options) and ("checker" in options or CHECKS in options)


def _is_checked(run: ActiveRun, task: Task) -> bool:
    """Whether a person reviews the work of this run: not that of a subtask or a plan step."""
    return task.parent_id is None and run.step is None and not is_acceptance(run.held.job)


def _failed(run: ActiveRun, checker: str, error: DetentError) -> c.Report:
    found = run_outcome.of_exception(error)
    text = f"its checker {checker} could not be submitted: {found.error}"
    return run_outcome.failed(run.held.grant, run.run_id, found._replace(error=text))


def _command(
    run: ActiveRun, task: Task, checker: str, report: c.CompleteRun, client: EngineClient
) -> c.SubmitTask:
    job = run.held.job
    diff, changes = _changes(run, client)
    payload = {
        "task_id": task.id,
        "asked": run.payload,
        "criteria": list(job.options.get("acceptance_criteria", ())),
        "result": report.result,
        "diff": diff,
        "changes": changes[:LONGEST_DIFF],
        "truncated": len(changes) > LONGEST_DIFF,
    }
    context = run.intent.app.context(checker, client.actor, lifecycle=task.lifecycle)
    request = {"intent": checker, "title": f"Check of task {task.id}", "payload": payload}
    made = subtask_of_task(context, task, derived_id(job.id, "check"), request)
    checks = {
        "task_id": task.id,
        "job_id": job.id,
        "run_id": run.run_id,
        "diff": diff,
        "truncated": payload["truncated"],
    }
    return replace(made, options={**made.options, CHECKS: checks})


def _changes(run: ActiveRun, client: EngineClient) -> tuple[str | None, str]:
    """The SHA-256 and the text of the diff that the run has left as evidence."""
    with client.read() as view:
        rows = view.page(Query("evidence", {"run_id": run.run_id, "file": DIFF_FILE}, limit=1))
    if not rows:
        return None, ""
    data = b"".join(client.engine.store.blobs.read(rows[0]["sha256"]))
    return rows[0]["sha256"], data.decode("utf-8", "replace")


# ---- the checker -----------------------------------------------------------------------------


def with_findings(run: ActiveRun, report: c.CompleteRun, client: EngineClient) -> c.CompleteRun:
    """The report of a checker with its verdict; its findings become evidence of the checked run."""
    checked = run.held.job.options.get(CHECKS)
    if checked is None or run.step is not None:
        return report
    verdict = _verdict(report.result)
    accepted = says_accept(verdict)
    content = {"checker": run.intent.name, **verdict, "accept": accepted, "diff": checked["diff"]}
    kept = run.files.keep(FINDINGS, redact_value(content))
    # This replaces a file that the checked run has left under the same name.
    client.execute(c.AttachEvidence(checked["job_id"], checked["run_id"], *kept))
    return replace(report, result={**verdict, "accept": accepted})


def _verdict(result: Any) -> dict[str, Any]:
    """What a checker has found: its result, its structured output, or JSON in its last message."""
    given = result if isinstance(result, Mapping) else {"findings": result}
    for found in (given, given.get("output"), _parsed(given.get("text"))):
        if isinstance(found, Mapping) and "accept" in found:
            return {**given, **found}
    return dict(given)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
