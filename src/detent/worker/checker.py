"""Checkers: the work of a task is checked by another intent before a person reviews it.

The checker is a subtask of the checked task, so that the task waits for it, cancels it and pays for
it. It is submitted in the transaction that ends the work.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from detent.app.retried_calls import retried
from detent.app.subtasks import derived_id
from detent.app.values import storable_text
from detent.errors import DetentError, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel.acceptance import is_acceptance
from detent.kernel.checks import CHECKS, says_accept
from detent.kernel.commands.review_commands import AddComments
from detent.kernel.entities import Task
from detent.kernel.variants import chosen_of, has_variants, number_of
from detent.operations.comment_threads import threads_of
from detent.operations.review_diffs import DIFF_FILE
from detent.redaction import redact_value
from detent.review.comment_places import place_in
from detent.review.unified_diff import Diff, parse_diff
from detent.store.types import Query
from detent.submission.request import MAX_TITLE
from detent.submission.subtask import subtask_of_task
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.check_comments import CheckedDiff, line_comments
from detent.worker.critic import has_critic
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
    parent = _parent(run, task, client)
    if chosen_of(parent.options) is not None and parent.id != task.id:
        return report  # another variant was chosen meanwhile
    try:
        check = retried(lambda: _command(run, parent, checker, report, client), run.held.expired)
    except DetentError as error:
        return _failed(run, checker, error)
    return replace(report, check=check)


def concerns(run: ActiveRun) -> bool:
    """Whether the run is checked or is a check: its end reads the store, which may block."""
    options = run.held.job.options
    return bool(options) and ("checker" in options or CHECKS in options)


def _is_checked(run: ActiveRun, task: Task) -> bool:
    """Whether its work is reviewed or compared: not that of a plan step or of other subtasks.

    The variants of a task were checked before one was chosen. The chosen work is checked again only
    where the checker may accept it.
    """
    job = run.held.job
    whole = run.whole_job and (run.step is None or not has_critic(run))
    if not whole or is_acceptance(job):
        return False
    if has_variants(job) and not job.options.get("checker_may_accept"):
        return False
    return task.parent_id is None or number_of(task) is not None


def _failed(run: ActiveRun, checker: str, error: DetentError) -> c.Report:
    found = run_outcome.of_exception(error)
    text = f"its checker {checker} could not be submitted: {found.error}"
    return run_outcome.failed(run.held.grant, run.run_id, found._replace(error=text))


def _command(
    run: ActiveRun, parent: Task, checker: str, report: c.CompleteRun, client: EngineClient
) -> c.SubmitTask:
    job, task = run.held.job, run.held.task
    assert task is not None, "only the work of a task is checked"
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
    context = replace(context, traceparent=run.traceparent)
    request = {"intent": checker, "title": _title(run, task, client), "payload": payload}
    made = subtask_of_task(context, parent, derived_id(job.id, "check"), request)
    checks = {
        "task_id": task.id,
        "job_id": job.id,
        "run_id": run.run_id,
        "diff": diff,
        "truncated": payload["truncated"],
    }
    return replace(made, options={**made.options, CHECKS: checks})


def _parent(run: ActiveRun, task: Task, client: EngineClient) -> Task:
    """The task that waits for the check: of a variant, the task whose variant it is."""
    if number_of(task) is None:
        return task
    wanted = [task.parent_id or ""]
    return client.query(lambda view: next(iter(view.tasks(wanted)))[0], run.held.expired)


def _title(run: ActiveRun, task: Task, client: EngineClient) -> str:
    """The title of a check, with that of the checked task."""
    query = Query("tasks", {"id": task.id}, limit=1)
    rows = client.query(lambda view: view.page(query), run.held.expired)
    title = str(rows[0]["title"] or "") if rows else ""
    return f"Check: {title or task.id}"[:MAX_TITLE]


def _changes(run: ActiveRun, client: EngineClient) -> tuple[str | None, str]:
    """The SHA-256 and the text of the diff that the run has left as evidence."""
    query = Query("evidence", {"run_id": run.run_id, "file": DIFF_FILE}, limit=1)
    rows = client.query(lambda view: view.page(query), run.held.expired)
    if not rows:
        return None, ""
    data = client.blob(rows[0]["sha256"], run.held.expired)
    return rows[0]["sha256"], data.decode("utf-8", "replace")


# ---- the checker -----------------------------------------------------------------------------


def with_findings(run: ActiveRun, report: c.CompleteRun, client: EngineClient) -> c.CompleteRun:
    """The report of a checker with its verdict.

    Its findings become evidence of the checked run; those about lines of the diff become comments.
    """
    checked = run.held.job.options.get(CHECKS)
    if checked is None or not run.whole_job:
        return report
    verdict = _verdict(report.result)
    accepted = says_accept(verdict)
    verdict["line_comments"] = _comment(run, checked, verdict.get("findings"), client)
    content = {"checker": run.intent.name, **verdict, "accept": accepted, "diff": checked["diff"]}
    kept = run.files.keep(FINDINGS, redact_value(content))
    # This replaces a file that the checked run has left under the same name.
    attached = c.AttachEvidence(checked["job_id"], checked["run_id"], *kept)
    client.execute(attached, lease_over=run.held.expired)
    return replace(report, result={**verdict, "accept": accepted})


def _comment(
    run: ActiveRun, checked: Mapping[str, Any], findings: Any, client: EngineClient
) -> list[dict[str, Any]]:
    """Comment on the lines that findings name; for each of them its comment, or why it has none."""
    found = line_comments(_checked_diff(run, checked, client), findings)
    if not found.new:
        return found.notes
    command = AddComments(checked["task_id"], found.new, check_id=run.held.job.id)
    try:
        client.execute(command, run.held.grant, run.held.expired)
    except Refused as refusal:
        new = {each.id for each in found.new}
        why = {"no_comment": refusal.message}
        return [
            {"finding": each["finding"], **why} if each.get("comment_id") in new else each
            for each in found.notes
        ]
    return found.notes


def _checked_diff(run: ActiveRun, checked: Mapping[str, Any], client: EngineClient) -> CheckedDiff:
    """The checked diff, and the open comments of this checker with their places in it."""
    now = _parsed_diff(run, checked["diff"], client)
    made = CheckedDiff(checked["task_id"], checked["run_id"], checked["diff"] or "", now, {})
    if now is None:
        return made
    threads = client.query(lambda view: threads_of(view, made.task_id), run.held.expired)
    own = [each for each in threads if each.open and each.author == f"checker:{run.intent.name}"]
    before = {sha: _parsed_diff(run, sha, client) for sha in {each.anchor.diff for each in own}}
    placed = ((place_in(each.anchor, before[each.anchor.diff], now), each) for each in own)
    return made._replace(
        known={(place, each.text): each.id for place, each in placed if place is not None}
    )


def _parsed_diff(run: ActiveRun, sha256: str | None, client: EngineClient) -> Diff | None:
    """The diff with this SHA-256; None if there is none, or if its content was deleted."""
    if sha256 is None:
        return None
    try:
        return parse_diff(client.blob(sha256, run.held.expired))
    except NotFound:
        return None


def _verdict(result: Any) -> dict[str, Any]:
    """What a checker has found: its result, its structured output, or JSON in its last message."""
    given = result if isinstance(result, Mapping) else {"findings": result}
    for found in (given, given.get("output"), _parsed(given.get("text"))):
        if isinstance(found, Mapping) and "accept" in found:
            return {**given, **found}
    return dict(given)


def _parsed(text: Any) -> Any:
    try:
        return _storable(json.loads(text)) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _storable(value: Any) -> Any:
    """A value of JSON with texts that a store can hold."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [_storable(each) for each in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(each) for key, each in value.items()}
    return value
