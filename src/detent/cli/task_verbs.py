"""Verbs on tasks: run, cancel, retry, resume, accept, reject, answer, signal, dismiss, delete.

Those that a job alone knows as well take its id too.
"""

from collections.abc import Callable
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.id_lookup import Way, first_known
from detent.cli.task_selection import FILTERS, act_on, chosen, selection, told
from detent.cli.typed_values import value_from

#: Verbs of jobs alone; a task knows these and more.
OF_JOBS = ("answer", "cancel", "delete", "retry", "signal")


def ways(verb: str) -> tuple[Way, ...]:
    """The operations that a verb may mean, by what an id may name."""
    of_task = (f"{verb}_task", "task_id")
    return (of_task, (f"{verb}_job", "job_id")) if verb in OF_JOBS else (of_task,)


def verb(name: str, help_text: str, *options: Callable[[Any], Any]) -> click.Command:
    """A command that asks for one operation on each task that it names or finds.

    What its further options say goes along with every request.
    """

    def command(task_ids: tuple[str, ...], yes: bool, as_json: bool, **said: Any) -> None:
        what = chosen(task_ids, yes, {each: said.pop(each) for each in FILTERS})
        with connect() as detent:
            if len(what.ids) == 1:
                told(first_known(detent, what.ids[0], *ways(name), **said), as_json)
            else:
                act_on(detent, what, name, said, as_json)

    made: Any = output.json_option(selection(command))
    for option in options:
        made = option(made)
    return click.command(name, help=help_text)(made)


run = verb("run", "Queue tasks, or run failed ones again.")
cancel = verb(
    "cancel",
    "Cancel tasks and their subtasks.",
    click.option("--reason", help="Why, for the record."),
)
resume = verb("resume", "Go on with timed-out tasks in their sessions.")
retry = verb("retry", "Run tasks again with new counts.")
dismiss = verb(
    "dismiss",
    "Stop waiting for subtasks that failed; their parents go on.",
    click.option("--reason", help="Why, for the record."),
)
delete = verb("delete", "Delete tasks with their data.")
accept = verb(
    "accept",
    "Accept work that waits for review.",
    click.option("--comment", help="A remark for the record."),
)
reject = verb(
    "reject",
    "Reject work that waits for review.",
    click.option("--comment", help="What is wrong; the next run is told first."),
    click.option("--run", is_flag=True, help="Run it again at once."),
)


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@click.argument("answer")
@output.json_option
def answer(work_id: str, answer: str, as_json: bool) -> None:
    """Answer the open question of a task, or of a job alone."""
    with connect() as detent:
        told(first_known(detent, work_id, *ways("answer"), answer=answer), as_json)


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@click.argument("name")
@click.option("--value", help="JSON, or a plain text.")
@output.json_option
def signal(work_id: str, name: str, value: str | None, as_json: bool) -> None:
    """Send a named signal to a job, or to that of a task."""
    with connect() as detent:
        said = {"name": name, "value": value_from(value)}
        sent = first_known(detent, work_id, *ways("signal"), **said)
    told(sent, as_json)
