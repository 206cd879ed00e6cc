"""`detent wait`: wait until a task has ended or needs a person; `submit --wait` waits so too."""

import math
import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import whole_id
from detent.cli.table_columns import task_state_cell
from detent.cli.typed_values import seconds_from
from detent.cli.waiting_calls import WaitingCalls
from detent.cli.working_jobs import working_jobs

#: Exit codes: of a blocked task, by ending, of a failure by its class, and of --timeout.
BLOCKED = 11
ENDED = {None: 0, "done": 0, "failed": 10, "cancelled": 12}
FAILED = {"timeout": 13, "budget": 14}
STILL_WAITING = 15
#: How often the task is read.
POLL_S = 0.1
#: Notes about a task that remains in a phase for this time.
NOTE_AFTER_S = 5.0
NOTES = {
    "queued": "No worker has claimed it yet. Start one with `detent up` or `detent worker`.",
    "idle": "It is not queued. `detent run` queues it.",
}
#: Reasons of a block that end without a person: the wait continues.
TRANSIENT_BLOCKS = ("retry", "rate_limit", "dependency", "resource", "subtasks")


@click.command()
@click.argument("task")
@click.option("--timeout", metavar="TIME", help="Wait no longer than this, such as 90s or 2h.")
@output.json_option
def wait(task: str, timeout: str | None, as_json: bool) -> None:
    """Wait until a task has ended, or needs a person. The task continues if the wait ends.

    Exit codes: 0 succeeded or waits for review, 10 failed, 11 blocked until a person acts, 12
    cancelled, 13 timed out, 14 budget exceeded, 15 still in progress after --timeout.
    """
    longest_s = math.inf if timeout is None else seconds_from(timeout, "--timeout")
    with connect() as detent:
        task_id = whole_id(detent, "task", task)
        found = wait_for(detent, task_id, as_json, time.monotonic() + longest_s)
        report(detent, found, as_json)
    sys.exit(exit_code(found))


def exit_code(task: Mapping[str, Any]) -> int:
    """The exit code for a task as it is now."""
    if not _has_stopped(task):
        return STILL_WAITING
    if task["phase"] == "blocked":
        return BLOCKED
    code = ENDED[task["ending"]]
    return FAILED.get(task["error_class"], code) if task["ending"] == "failed" else code


def wait_for(
    detent: Connection, task_id: str, as_json: bool, until_s: float = math.inf
) -> dict[str, Any]:
    """Wait until the task has ended or needs a person, or until this time of the monotonic clock.

    Each new state is printed.
    """
    calls = WaitingCalls(detent, lambda text: print_progress(as_json, text), until_s)
    last, since = None, time.monotonic()
    while True:
        task: dict[str, Any] = calls.call("show_task", task_id=task_id)
        if task["state"] != last:
            last, since = task["state"], time.monotonic()
            print_progress(as_json, f"{task['state_at']}  {last}" + _block_reason(task))
        if _has_stopped(task) or time.monotonic() >= until_s:
            return task
        if task["phase"] in NOTES and time.monotonic() - since > NOTE_AFTER_S:
            since = math.inf
            print_progress(as_json, NOTES[task["phase"]])
        time.sleep(POLL_S)


def _has_stopped(task: Mapping[str, Any]) -> bool:
    """Whether the task has ended or needs a person."""
    stopped = task["phase"] == "blocked" or task["ending"] or task["waits_for_person"]
    return bool(stopped) and not _is_transient(task)


def _is_transient(task: Mapping[str, Any]) -> bool:
    """Whether the task is blocked and will be unblocked without a person.

    A task that waits for a failed subtask needs a person.
    """
    stuck = task["blocked_by"] == "subtasks" and task["failed_subtask"] is not None
    return task["blocked_by"] in TRANSIENT_BLOCKS and not stuck


def print_progress(as_json: bool, text: str) -> None:
    """Print progress to stderr: stdout contains the result alone."""
    if not as_json:
        click.echo(output.clean(text), err=True)


def _block_reason(task: dict[str, Any]) -> str:
    return f" ({task['blocked_by']})" if task["blocked_by"] else ""


def report(detent: Connection, task: dict[str, Any], as_json: bool) -> None:
    """Print the task with its result or its error."""
    jobs = working_jobs(detent.call("task_jobs", task_id=task["id"])["items"])
    result, error = (jobs[-1]["result"], jobs[-1]["error"]) if jobs else (None, None)
    if as_json:
        output.print_json({"task": task, "result": result, "error": error})
        return
    shown = error if result is None else output.value_text(result)
    heading = "ERROR" if result is None and error else "RESULT"
    output.print_table(
        ("TASK", "STATE", heading), [(task["id"], task_state_cell(task), shown or "")]
    )
