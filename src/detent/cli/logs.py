"""`detent logs` prints the output of a run: an agent's as a transcript, any other as it is."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.id_lookup import find_lookup
from detent.cli.transcript_lines import print_item
from detent.cli.waiting_calls import WaitingCalls

POLL_S = 0.2
#: The number of items in one page of a transcript.
ITEMS = 500
#: Phases of a task in which more output can follow.
AT_WORK = ("queued", "working")
#: The operations that return output, by the kind of the id.
LOGS = (("task_logs", "task_id"), ("job_logs", "job_id"), ("run_output", "run_id"))


class _Work(NamedTuple):
    """The work whose output is printed, and the operation that reads the output of its last run."""

    detent: Connection
    operation: str
    parameter: str
    work_id: str
    follow: bool

    def read(self, offset: int) -> dict[str, Any]:
        chunk: dict[str, Any] = self.detent.call(
            self.operation, **{self.parameter: self.work_id}, offset=offset
        )
        return chunk

    def has_ended(self, chunk: dict[str, Any]) -> bool:
        """Whether no more output will follow a chunk."""
        if chunk["text"] or not (chunk["ended"] or chunk["run_id"] is None):
            return False
        if self.parameter != "task_id":
            return bool(chunk["ended"])
        return self.detent.call("show_task", task_id=self.work_id)["phase"] not in AT_WORK


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB_OR_RUN")
@click.option("-f", "--follow", is_flag=True, help="Print new output while it runs.")
@click.option("--raw", is_flag=True, help="Print the lines as the agent has printed them.")
@click.option("--full", is_flag=True, help="Print the whole input and output of tools.")
@click.option("--search", default="", help="Print only items with this text.")
@output.json_option
def logs(work_id: str, follow: bool, raw: bool, full: bool, search: str, as_json: bool) -> None:
    """Print the output of a task's latest run.

    On a terminal, the output of an agent is a transcript: messages, tool calls, edits and costs.
    --raw prints its lines instead, as does output to a pipe without --full or --search. With
    --json, each item is one line; for other runs, each chunk of the output. With --follow, the
    output of the next run follows.
    """
    if raw and (full or search):
        raise click.UsageError("--raw cannot be combined with --full or --search.")
    with connect() as detent:
        calls: Connection = WaitingCalls(detent, _note) if follow else detent
        (operation, parameter), chunk = find_lookup(calls, work_id, *LOGS)
        work = _Work(calls, operation, parameter, work_id, follow)
        chosen = bool(full or search)
        if raw or not (chosen or _is_transcript(detent, chunk["run_id"], as_json)):
            _print_raw(work, as_json)
        else:
            _print_transcript(work, chunk, search, _printer(full, as_json))


def _note(text: str) -> None:
    """Print to stderr: stdout contains the output alone."""
    click.echo(output.clean(text), err=True)


def _is_transcript(detent: Connection, run_id: str | None, as_json: bool) -> bool:
    """Whether the run is an agent's, and is printed for a person or as items."""
    if run_id is None or not (as_json or sys.stdout.isatty()):
        return False
    return detent.call("show_run", run_id=run_id)["session_id"] is not None


def _printer(full: bool, as_json: bool) -> Callable[[dict[str, Any]], None]:
    if as_json:
        return lambda item: click.echo(json.dumps(item))
    return lambda item: print_item(item, full=full)


def _print_transcript(
    work: _Work, chunk: dict[str, Any], search: str, print_one: Callable[[dict[str, Any]], None]
) -> None:
    """Print the transcript of the last run; with --follow also those of the next runs."""
    run_id, after = chunk["run_id"], 0
    while True:
        page: dict[str, Any] = {"items": [], "next": after}
        if run_id is not None:
            page = work.detent.call(
                "run_transcript", run_id=run_id, after=after, limit=ITEMS, q=search
            )
        for item in page["items"]:
            print_one(item)
        if page["next"] not in (None, after):
            after = page["next"]
            continue
        if not work.follow:
            return
        if run_id is None or page["next"] is None:  # the next run, if there will be one
            chunk = work.read(0)
            if chunk["run_id"] != run_id:
                run_id, after = chunk["run_id"], 0
                continue
            if work.has_ended({**chunk, "text": ""}):
                return
        time.sleep(POLL_S)


def _print_raw(work: _Work, as_json: bool) -> None:
    """Print the output to its end; with --follow also that of the next runs."""
    run_id, offset = None, 0
    while True:
        chunk = work.read(offset)
        if chunk["run_id"] != run_id and offset:
            run_id, offset = chunk["run_id"], 0  # a new run has begun: print it from the start
            if work.follow:
                continue
            return
        if chunk["text"] or not offset:
            _write(chunk, as_json)
        run_id, offset = chunk["run_id"], chunk["offset"]
        if not chunk["text"]:
            if not work.follow or work.has_ended(chunk):
                return
            time.sleep(POLL_S)


def _write(chunk: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(chunk))
    elif chunk["text"]:
        click.echo(output.clean(chunk["text"]), nl=False)
