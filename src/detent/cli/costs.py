"""`detent costs` shows the cost of a task; `detent raise` sets its budget."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.table_columns import run_state_cell
from detent.cli.typed_values import dollars_from

TASKS = ("ID", "RUNS", "COST", "BUDGET", "TOKENS IN", "TOKENS OUT")
RUNS = ("ID", "STATE", "COST", "TOKENS IN", "TOKENS OUT")


@click.command()
@click.argument("task_id", metavar="TASK")
@output.json_option
def costs(task_id: str, as_json: bool) -> None:
    """Show the cost of a task by run and by subtask."""
    with connect() as detent:
        found = detent.call("task_costs", task_id=task_id)
    if as_json:
        output.print_json(found)
        return
    output.print_text(_summary(found))
    output.print_table(TASKS, [_task(row) for row in found["tasks"]])
    if found["runs"]:
        output.print_text("\nRuns")
        output.print_table(RUNS, [_run(row) for row in found["runs"]])


def _summary(found: Mapping[str, Any]) -> str:
    spent = f"{found['id']} has cost {_dollars(found['tree']['cost'])} with its subtasks"
    if found["left"] is None:
        return f"{spent}. It has no budget."
    left = max(found["left"], 0)
    rest = f"and may spend {_dollars(left)} more." if left else "and its budget is spent."
    if left and found["warned"]:
        rest += " Most of its budget is spent."
    if not left or found["warned"]:
        rest += f" To raise it: detent raise {found['id']} DOLLARS"
    return f"{spent} {rest}"


def _task(row: Mapping[str, Any]) -> tuple[str, ...]:
    budget = "" if row["budget"] is None else _dollars(row["budget"])
    tokens = (str(row["tokens_in"]), str(row["tokens_out"]))
    return (row["id"], str(row["runs"]), _dollars(row["cost"]), budget, *tokens)


def _run(row: Mapping[str, Any]) -> Sequence[output.Cell]:
    tokens = (str(row["tokens_in"]), str(row["tokens_out"]))
    return (row["id"], run_state_cell(row), _dollars(row["cost"]), *tokens)


def _dollars(amount: float) -> str:
    """An amount with two decimals, or more if they are not zero."""
    whole, _, decimals = f"{amount:.6f}".partition(".")
    return f"${whole}.{decimals.rstrip('0').ljust(2, '0')}"


@click.command("raise")
@click.argument("task_id", metavar="TASK")
@click.argument("max_budget_usd", metavar="DOLLARS")
@output.json_option
def raise_budget(task_id: str, max_budget_usd: str, as_json: bool) -> None:
    """Set a task's budget in dollars; work that waited for budget continues."""
    amount = dollars_from(max_budget_usd, "DOLLARS")
    with connect() as detent:
        moved = detent.call("edit_task", task_id=task_id, max_budget_usd=amount)
    sentence = f"{moved['id']}: {moved['state']}, budget {_dollars(amount)}"
    output.print_result(moved, sentence, as_json)
