"""Commands on tasks: run, cancel, retry, accept, reject, answer, assign, snooze, delete and others.

Those of JOB_VERBS also take the id of a job without a task.
"""

from collections.abc import Callable
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.id_lookup import Lookup, call_first_match
from detent.cli.reviewed_diff import diff_option, reviewed_diff
from detent.cli.task_selection import (
    FILTERS,
    act_on_many,
    parse_selection,
    print_outcome,
    selection_options,
)
from detent.cli.typed_values import value_from

#: Commands that decide about the diff of a task.
VERDICTS = ("accept", "reject")
#: What `accept` prints if the task is not completed yet.
ACTION_FIRST = "The declared merge or push runs first; the task is completed after it."
#: Commands that also work on a job without a task.
JOB_VERBS = ("answer", "cancel", "delete", "retry", "signal")


def lookups(verb: str) -> tuple[Lookup, ...]:
    """The operations of a verb: on a task, and on a job if jobs have it."""
    of_task = (f"{verb}_task", "task_id")
    return (of_task, (f"{verb}_job", "job_id")) if verb in JOB_VERBS else (of_task,)


def verb_command(name: str, help_text: str, *options: Callable[[Any], Any]) -> click.Command:
    """A command that calls one operation on each selected task.

    The values of its further options are sent with every request.
    """

    def command(task_ids: tuple[str, ...], yes: bool, as_json: bool, **arguments: Any) -> None:
        what = parse_selection(task_ids, yes, {each: arguments.pop(each) for each in FILTERS})
        with connect() as detent:
            if len(what.ids) == 1:
                if name in VERDICTS:
                    named = reviewed_diff(detent, what.ids[0], arguments["diff"])
                    arguments["diff"] = named
                answer = call_first_match(detent, what.ids[0], *lookups(name), **arguments)
                print_outcome(answer, as_json)
                if name == "accept" and answer.get("state") == "queued" and not as_json:
                    output.print_text(ACTION_FIRST)
            elif arguments.pop("diff", None) is not None:
                raise click.UsageError("--diff needs one task id: each task has its own diff.")
            else:
                act_on_many(detent, what, name, arguments, as_json)

    made: Any = selection_options(output.json_option(command))
    for option in reversed(options):
        made = option(made)
    return click.command(name, help=f"{help_text}\n\n{_selection_help(name)}")(made)


def _selection_help(name: str) -> str:
    given = (
        "Give task ids, or options that select tasks; with options, you confirm the number first."
    )
    return f"{given} A single id may be a job without a task." if name in JOB_VERBS else given


run = verb_command("run", "Queue tasks, or run failed tasks again.")
cancel = verb_command(
    "cancel",
    "Cancel tasks and their subtasks.",
    click.option("--reason", help="The reason, recorded in the event log."),
)
resume = verb_command("resume", "Continue timed-out tasks in their agent sessions.")
retry = verb_command("retry", "Run tasks again and reset their retry counts.")
dismiss = verb_command(
    "dismiss",
    "Stop waiting for failed subtasks, so that their parents continue.",
    click.option("--reason", help="The reason, recorded in the event log."),
)
delete = verb_command("delete", "Delete tasks and their data.")
accept = verb_command(
    "accept",
    "Accept work that waits for review.",
    click.option("--comment", help="A comment, recorded in the event log."),
    click.option(
        "--without-action", is_flag=True, help="Accept it without the declared merge or push."
    ),
    diff_option,
)
reject = verb_command(
    "reject",
    "Reject work that waits for review.",
    click.option("--comment", help="What is wrong; the next run receives it."),
    click.option("--run", is_flag=True, help="Run it again immediately."),
    diff_option,
)


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@click.argument("answer")
@output.json_option
def answer(work_id: str, answer: str, as_json: bool) -> None:
    """Answer the open question of a task, or of a job without a task."""
    with connect() as detent:
        print_outcome(call_first_match(detent, work_id, *lookups("answer"), answer=answer), as_json)


@click.command()
@click.argument("work_id", metavar="TASK_OR_JOB")
@click.argument("name")
@click.option("--value", help="The value of the signal: JSON or plain text.")
@output.json_option
def signal(work_id: str, name: str, value: str | None, as_json: bool) -> None:
    """Send a named signal to a job, or to the job of a task."""
    with connect() as detent:
        arguments = {"name": name, "value": value_from(value)}
        sent = call_first_match(detent, work_id, *lookups("signal"), **arguments)
    print_outcome(sent, as_json)


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("person", required=False)
@click.option("--off", is_flag=True, help="End the assignment.")
@output.json_option
def assign(task_id: str, person: str | None, off: bool, as_json: bool) -> None:
    """Assign a task to a person, who finds it with detent inbox --mine."""
    if (person is None) != off:
        raise click.UsageError("Give a person, or --off to end the assignment.")
    with connect() as detent:
        print_outcome(call_first_match(detent, task_id, *lookups("assign"), person=person), as_json)


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("until", required=False)
@click.option("--off", is_flag=True, help="Show the task in your inbox again.")
@output.json_option
def snooze(task_id: str, until: str | None, off: bool, as_json: bool) -> None:
    """Hide a task from your inbox until a time.

    UNTIL is a delay such as 2h or 1d, or a time such as 2030-01-01T09:00:00Z.
    """
    if (until is None) != off:
        raise click.UsageError("Give a delay or a time, or --off to show the task again.")
    with connect() as detent:
        found = call_first_match(detent, task_id, *lookups("snooze"), until=until)
    back = found["snoozed_until"]
    text = f"{found['id']}: {'snoozed until ' + back if back else 'in your inbox'}"
    output.print_result(found, text, as_json)
