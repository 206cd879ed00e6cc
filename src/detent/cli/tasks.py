"""Commands about tasks: look, judge, answer, run, cancel, delete."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.values import value_from
from detent.kernel.lifecycles import LIFECYCLES

SHORT = 8


def state_cell(row: Mapping[str, Any]) -> output.Cell:
    return output.state_cell(LIFECYCLES[row["lifecycle"]].state(row["state"]))


# ---- looking ---------------------------------------------------------------------------------


@click.command()
@click.option("--state", help="Only these states, separated by commas.")
@click.option("--active", is_flag=True, help="Only tasks that have not ended.")
@click.option("--project", help="Only this project.")
@click.option("--intent", help="Only this intent.")
@click.option("--tag", help="Only tasks with this tag.")
@click.option("--limit", default=50, show_default=True, help="At most so many.")
@click.option("--cursor", help="Go on where the last page ended.")
@output.json_option
def tasks(as_json: bool, **filters: Any) -> None:
    """List tasks, newest first."""
    with connect() as detent:
        page = detent.call("list_tasks", **filters)
    if as_json:
        output.print_json(page)
        return
    if not page["items"]:
        output.say("There are no tasks here. Submit one: detent submit runQA")
        return
    rows = [
        (
            row["id"],
            state_cell(row),
            row["priority"],
            row["intent"],
            row["project"],
            row["title"] or _age(row),
        )
        for row in page["items"]
    ]
    output.table(("ID", "STATE", "PRIORITY", "INTENT", "PROJECT", "TITLE"), rows)
    if page["cursor"]:
        output.say(f"More: detent tasks --cursor {page['cursor']}")


def _age(row: Mapping[str, Any]) -> str:
    return f"since {row['state_at']}"


@click.command()
@click.argument("task_id")
@output.json_option
def show(task_id: str, as_json: bool) -> None:
    """Show one task: where it stands, its runs, and its history."""
    with connect() as detent:
        task = detent.call("show_task", task_id=task_id)
        runs = detent.call("task_runs", task_id=task_id)["items"]
        events = detent.call("task_events", task_id=task_id)["events"]
    if as_json:
        output.print_json({"task": task, "runs": runs, "events": events})
        return
    _show(task)
    if runs:
        output.say("\nRuns")
        output.table(
            ("ID", "STATE", "ATTEMPT", "STARTED", "ENDED", "EXIT", "ERROR"),
            [
                (
                    run["id"],
                    output.state_cell(LIFECYCLES["run"].state(run["state"])),
                    str(run["attempt"]),
                    run["started_at"] or "",
                    run["ended_at"] or "",
                    "" if run["exit_code"] is None else str(run["exit_code"]),
                    run["error"] or "",
                )
                for run in runs
            ],
        )
    output.say("\nHistory")
    output.table(("POSITION", "AT", "EVENT", "BY"), [event_row(event) for event in events])


def event_row(event: Mapping[str, Any]) -> tuple[str, ...]:
    return str(event["position"]), event["at"], event["name"], event["actor"]


def _show(task: Mapping[str, Any]) -> None:
    rows: list[tuple[output.Cell, output.Cell]] = [("state", state_cell(task))]
    for name in (
        "title",
        "intent",
        "project",
        "priority",
        "source",
        "lifecycle",
        "blocked_by",
        "comment",
    ):
        if task.get(name):
            rows.append((name, str(task[name])))
    question = task["blocked_detail"].get("text") if task["state"] == "blocked" else None
    if question:
        rows.append(("question", str(question)))
    rows.append(("payload", str(task["payload"])))
    output.table(("TASK", task["id"]), rows)


@click.command()
@click.argument("task_id")
@output.json_option
def why(task_id: str, as_json: bool) -> None:
    """Say why a task is not moving, and who can change that."""
    with connect() as detent:
        answer = detent.call("why", task_id=task_id)
    if as_json:
        output.print_json(answer)
        return
    output.say(f"{answer['id']} is {answer['state']} since {answer['since']}.")
    for reason in answer["reasons"]:
        detail = ", ".join(f"{name}: {value}" for name, value in reason["detail"].items())
        output.say(
            f"- {reason['reason']}: cleared by {reason['cleared_by']} ({reason['how']}). {detail}"
        )
    if answer["actions"]:
        output.say(f"You can: {', '.join(answer['actions'])}.")


# ---- verbs -----------------------------------------------------------------------------------


def said(answer: Mapping[str, Any], as_json: bool) -> None:
    """What a verb has done."""
    if as_json:
        output.print_json(answer)
    else:
        outcome = answer.get("outcome")
        output.say(
            f"{answer['id']}: {answer.get('state', '')} {f'({outcome})' if outcome else ''}".strip()
        )


def verb(name: str, operation: str, help_text: str) -> click.Command:
    """A command that asks for one operation on each task that it names."""

    @click.command(name, help=help_text)
    @click.argument("task_ids", nargs=-1, required=True)
    @output.json_option
    def run(task_ids: tuple[str, ...], as_json: bool) -> None:
        with connect() as detent:
            for task_id in task_ids:
                said(detent.call(operation, task_id=task_id), as_json)

    return run


run = verb("run", "run_task", "Queue tasks, or run failed ones again.")
cancel = verb("cancel", "cancel_task", "Cancel tasks and their subtasks.")
resume = verb("resume", "resume_task", "Go on with timed-out tasks in their sessions.")
retry = verb("retry", "retry_task", "Run tasks again with new counts.")
delete = verb("delete", "delete_task", "Delete tasks with their data.")


@click.command()
@click.argument("task_id")
@click.option("--comment", help="A remark for the record.")
@output.json_option
def accept(task_id: str, comment: str | None, as_json: bool) -> None:
    """Accept work that waits for review."""
    with connect() as detent:
        said(detent.call("accept_task", task_id=task_id, comment=comment), as_json)


@click.command()
@click.argument("task_id")
@click.option("--comment", help="What is wrong; the next run is told first.")
@click.option("--run", "again", is_flag=True, help="Run it again at once.")
@output.json_option
def reject(task_id: str, comment: str | None, again: bool, as_json: bool) -> None:
    """Reject work that waits for review."""
    with connect() as detent:
        said(detent.call("reject_task", task_id=task_id, comment=comment, run=again), as_json)


@click.command()
@click.argument("task_id")
@click.argument("answer")
@output.json_option
def answer(task_id: str, answer: str, as_json: bool) -> None:
    """Answer a task's open question."""
    with connect() as detent:
        said(detent.call("answer_task", task_id=task_id, answer=answer), as_json)


@click.command()
@click.argument("task_id")
@click.argument("name")
@click.option("--value", help="JSON, or a plain text.")
@output.json_option
def signal(task_id: str, name: str, value: str | None, as_json: bool) -> None:
    """Send a named signal to a task's job."""
    with connect() as detent:
        sent = detent.call("signal_task", task_id=task_id, name=name, value=value_from(value))
    said(sent, as_json)


# ---- the inbox -------------------------------------------------------------------------------


@click.command()
@click.option("--list", "only_list", is_flag=True, help="Only list; ask nothing.")
@output.json_option
def inbox(only_list: bool, as_json: bool) -> None:
    """Deal with what waits for a person, one by one."""
    with connect() as detent:
        items = detent.call("inbox")["items"]
        if as_json:
            output.print_json({"items": items})
        elif not items:
            output.say("Nothing waits for a person.")
        elif only_list or not sys.stdin.isatty():
            rows = [(row["id"], state_cell(row), row["intent"], _wanted(row)) for row in items]
            output.table(("ID", "STATE", "INTENT", "WANTED"), rows)
        else:
            for row in items:
                _deal_with(detent, row)


def _wanted(row: Mapping[str, Any]) -> str:
    if row["state"] == "ready":
        return "review: accept or reject"
    detail = row["blocked_detail"]
    text = detail.get("text") or detail.get("error") or ""
    options = detail.get("options")
    return f"{row['blocked_by']}: {text}" + (
        f" ({', '.join(map(str, options))})" if options else ""
    )


def _deal_with(detent: Connection, row: Mapping[str, Any]) -> None:
    output.say(f"\n{row['id']}  {row['intent']}  {row['title']}\n  {_wanted(row)}")
    choices = DEALINGS["ready" if row["state"] == "ready" else str(row["blocked_by"])]
    choice = click.prompt(
        "  " + " / ".join((*choices, "skip")), type=click.Choice([*choices, "skip"])
    )
    if choice != "skip":
        said(choices[choice](detent, row["id"]), as_json=False)


Dealing = Callable[[Connection, str], Any]


def _answer(detent: Connection, task_id: str) -> Any:
    return detent.call("answer_task", task_id=task_id, answer=click.prompt("  answer"))


def _reject(detent: Connection, task_id: str) -> Any:
    return detent.call("reject_task", task_id=task_id, comment=click.prompt("  what is wrong"))


def _raise(detent: Connection, task_id: str) -> Any:
    amount = click.prompt("  new budget in dollars")
    return detent.call("edit_task", task_id=task_id, max_budget_usd=amount)


def _simply(operation: str) -> Dealing:
    return lambda detent, task_id: detent.call(operation, task_id=task_id)


_CANCEL = _simply("cancel_task")
DEALINGS: Mapping[str, Mapping[str, Dealing]] = {
    "ready": {"accept": _simply("accept_task"), "reject": _reject, "cancel": _CANCEL},
    "question": {"answer": _answer, "cancel": _CANCEL},
    "needs_user": {"answer": _answer, "cancel": _CANCEL},
    "budget": {"raise": _raise, "cancel": _CANCEL},
    "error": {"retry": _simply("retry_task"), "cancel": _CANCEL},
}
