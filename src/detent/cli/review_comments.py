"""Commands of a review: list comments on a diff, comment, reply, resolve, request changes."""

import re
from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.annotated_diff import where_text
from detent.cli.connection import connect
from detent.cli.reviewed_diff import diff_option, reviewed_diff
from detent.cli.task_selection import print_outcome
from detent.errors import Invalid, Refused

#: A file and its lines: `src/app.py:3`, `src/app.py:3-7`, or `src/app.py` for the whole file.
LINES = re.compile(r"(?P<file>.+?)(?::(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?)?")


@click.command()
@click.argument("task_id", metavar="TASK")
@output.json_option
def comments(task_id: str, as_json: bool) -> None:
    """List the comments on a task's diff, with their replies, and your drafts."""
    with connect() as detent:
        found = detent.call("task_comments", task_id=task_id)
    if as_json:
        output.print_json(found)
        return
    if not found["comments"] and not found["drafts"]:
        output.print_text("No comments.")
    for each in found["comments"]:
        _print_comment(each)
    for each in found["drafts"]:
        where = where_text(each["place"] or each["anchor"]) if each["anchor"] else each["reply_to"]
        output.print_text(f"{each['id']}  draft  {where}\n  {each['text']}")


def _print_comment(each: Mapping[str, Any]) -> None:
    outdated = "" if each["place"] else "  (outdated)"
    where = where_text(each["place"] or each["anchor"])
    output.print_text(f"{each['id']}  {each['state']}  {where}{outdated}")
    for line in each["anchor"]["quoted"]:
        output.print_text(f"  > {line}")
    output.print_text(f"  {each['author']}: {each['text']}")
    for reply in each["replies"]:
        output.print_text(f"    {reply['author']}: {reply['text']}")


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("lines", metavar="FILE:LINE[-LINE]")
@click.argument("text")
@click.option("--before", is_flag=True, help="The lines are those before the change.")
@output.json_option
def comment(task_id: str, lines: str, text: str, before: bool, as_json: bool) -> None:
    """Comment on lines of a task's diff; without a line, on the whole file."""
    where = _lines_from(lines)
    with connect() as detent:
        diff = detent.call("task_comments", task_id=task_id)["diff"]
        if diff is None:
            raise Refused(f"Task {task_id} has no diff to review.", code="no_diff")
        side = "before" if before else "after"
        made = detent.call("add_comment", task_id=task_id, diff=diff, side=side, text=text, **where)
    output.print_result(made, f"Added comment {made['comment_id']}.", as_json)


def _lines_from(given: str) -> dict[str, Any]:
    found = LINES.fullmatch(given)
    if found is None:
        form = "FILE, FILE:LINE or FILE:LINE-LINE"
        raise Invalid(
            f"The lines must be given as {form}, not {given!r}.",
            field="lines",
            given=given,
            allowed=(form,),
        )
    start = int(found["start"] or 0)
    return {"file": found["file"], "start": start, "end": int(found["end"] or start)}


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("comment_id", metavar="COMMENT")
@click.argument("text")
@output.json_option
def reply(task_id: str, comment_id: str, text: str, as_json: bool) -> None:
    """Reply to a comment on a task's diff."""
    with connect() as detent:
        made = detent.call("reply_to_comment", task_id=task_id, comment_id=comment_id, text=text)
    output.print_result(made, f"Replied to comment {comment_id}.", as_json)


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("comment_id", metavar="COMMENT")
@click.option("--reopen", is_flag=True, help="Mark a resolved comment as open again.")
@output.json_option
def resolve(task_id: str, comment_id: str, reopen: bool, as_json: bool) -> None:
    """Mark a comment on a task's diff as resolved."""
    operation = "reopen_comment" if reopen else "resolve_comment"
    with connect() as detent:
        made = detent.call(operation, task_id=task_id, comment_id=comment_id)
    state = "open" if reopen else "resolved"
    output.print_result(made, f"Comment {comment_id} is {state}.", as_json)


@click.command("request-changes")
@click.argument("task_id", metavar="TASK")
@click.option("--comment", help="A general comment, which the agent gets first.")
@diff_option
@output.json_option
def request_changes(task_id: str, comment: str | None, diff: str | None, as_json: bool) -> None:
    """Send work back with all open comments, and run it again in the same session."""
    with connect() as detent:
        given = {"diff": reviewed_diff(detent, task_id, diff), "comment": comment}
        sent = {name: value for name, value in given.items() if value is not None}
        print_outcome(detent.call("request_changes", task_id=task_id, **sent), as_json)
