"""Verbs on tasks: run, cancel, retry, resume, accept, reject, answer, signal, delete."""

from collections.abc import Callable
from typing import Any

import click

from detent.cli import output
from detent.cli.choosing import FILTERS, act_on, chosen, selection, told
from detent.cli.connection import connect
from detent.cli.values import value_from


def verb(
    name: str, operation: str, help_text: str, *options: Callable[[Any], Any]
) -> click.Command:
    """A command that asks for one operation on each task that it names or finds.

    What its further options say goes along with every request.
    """

    def command(task_ids: tuple[str, ...], yes: bool, as_json: bool, **said: Any) -> None:
        what = chosen(task_ids, yes, {each: said.pop(each) for each in FILTERS})
        with connect() as detent:
            act_on(
                detent,
                what,
                name,
                lambda task_id: detent.call(operation, task_id=task_id, **said),
                as_json,
            )

    made: Any = output.json_option(selection(command))
    for option in options:
        made = option(made)
    return click.command(name, help=help_text)(made)


run = verb("run", "run_task", "Queue tasks, or run failed ones again.")
cancel = verb(
    "cancel",
    "cancel_task",
    "Cancel tasks and their subtasks.",
    click.option("--reason", help="Why, for the record."),
)
resume = verb("resume", "resume_task", "Go on with timed-out tasks in their sessions.")
retry = verb("retry", "retry_task", "Run tasks again with new counts.")
delete = verb("delete", "delete_task", "Delete tasks with their data.")
accept = verb(
    "accept",
    "accept_task",
    "Accept work that waits for review.",
    click.option("--comment", help="A remark for the record."),
)
reject = verb(
    "reject",
    "reject_task",
    "Reject work that waits for review.",
    click.option("--comment", help="What is wrong; the next run is told first."),
    click.option("--run", is_flag=True, help="Run it again at once."),
)


@click.command()
@click.argument("task_id")
@click.argument("answer")
@output.json_option
def answer(task_id: str, answer: str, as_json: bool) -> None:
    """Answer a task's open question."""
    with connect() as detent:
        told(detent.call("answer_task", task_id=task_id, answer=answer), as_json)


@click.command()
@click.argument("task_id")
@click.argument("name")
@click.option("--value", help="JSON, or a plain text.")
@output.json_option
def signal(task_id: str, name: str, value: str | None, as_json: bool) -> None:
    """Send a named signal to a task's job."""
    with connect() as detent:
        sent = detent.call("signal_task", task_id=task_id, name=name, value=value_from(value))
    told(sent, as_json)
