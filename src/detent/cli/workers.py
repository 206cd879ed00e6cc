"""`detent workers`: list workers, their jobs and their last heartbeats; drain one."""

from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.named_verbs import add_verb


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def workers(ctx: click.Context, as_json: bool) -> None:
    """List workers and the jobs they run; drain one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_workers")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text("No workers. Start one: detent up, or detent worker")
    else:
        headings = ("NAME", "STATE", "RUNNING", "LAST HEARTBEAT", "JOBS", "INTENTS")
        output.print_table(headings, [_cells(row) for row in found["items"]])


def _cells(row: Mapping[str, Any]) -> tuple[output.Cell, ...]:
    if not row["alive"]:
        state = output.Styled("no heartbeat", "red")
    elif row["draining"]:
        state = output.Styled("draining", "yellow")
    else:
        state = output.Styled("alive", "green")
    return (
        row["name"],
        state,
        _slots(row),
        row["seen_at"] or "never",
        ", ".join(each["job_id"] for each in row["running"]),
        ", ".join(row["intents"]),
    )


def _slots(row: Mapping[str, Any]) -> str:
    used, all_slots, now = len(row["running"]), row["concurrency"] or "?", row["slots"]
    if now is None or now == row["concurrency"]:
        return f"{used} of {all_slots}"
    return f"{used} of {now} (memory is short; otherwise {all_slots})"


def _print_done(name: str, done: Mapping[str, Any]) -> None:
    output.print_text(f"{name}: {'draining' if done['draining'] else 'claiming again'}")


add_verb(
    workers,
    "drain",
    "drain_worker",
    "Let a worker claim no more jobs; the jobs that it holds run to their end.",
    _print_done,
)
add_verb(
    workers, "undrain", "undrain_worker", "Let a drained worker claim jobs again.", _print_done
)
