"""`detent review`: read the work of a task, comment on its diff, and accept or send it back."""

import sys
from typing import Any, BinaryIO, NamedTuple

import click

from detent.cli import output
from detent.cli.comments_file import edits_in
from detent.cli.connection import Connection, connect
from detent.cli.draft_requests import requests_of, send
from detent.cli.review_session import VERDICTS, ReviewSession, Shown
from detent.cli.reviewed_diff import diff_option, named_diff
from detent.cli.task_selection import print_outcome
from detent.errors import Refused
from detent.quantity import quantity


class Wanted(NamedTuple):
    """What a command line asks for."""

    verdict: str | None
    publish: bool
    message: str | None
    comments: BinaryIO | None
    diff: str | None


@click.command()
@click.argument("task_id", metavar="TASK")
@click.option("--accept", "verdict", flag_value="accept", help="Accept the work.")
@click.option(
    "--request-changes",
    "verdict",
    flag_value="changes",
    help="Publish your drafts, and run the task again in the same session.",
)
@click.option("--reject", "verdict", flag_value="reject", help="Reject the work.")
@click.option("--publish", is_flag=True, help="Publish your drafts.")
@click.option("--message", "-m", metavar="TEXT", help="A comment on the whole work.")
@click.option(
    "--comments",
    type=click.File("rb"),
    metavar="FILE",
    help="Save the comments in this file as drafts; a verdict publishes them.",
)
@diff_option
@output.json_option
def review(task_id: str, as_json: bool, **given: Any) -> None:
    """Review a diff: comment on it and decide.

    On a terminal, the review is shown in $PAGER, comments are written in $EDITOR and stored as
    drafts, and the verdict is asked for. A verdict is about the diff that was shown: if the task
    has another one by then, it is refused.

    With options, nothing is asked. Without --diff, the verdict is then about the diff that is under
    review when the command starts. FILE is a JSON list of {"file", "start", "end", "side", "text"}
    and {"reply_to", "text"}, or a text from the editor.
    """
    wanted = Wanted(**given)
    if wanted.message is not None and wanted.verdict is None:
        raise click.UsageError("--message needs --accept, --request-changes or --reject.")
    with connect() as detent:
        shown = Shown(detent, task_id)
        if wanted.verdict or wanted.publish or wanted.comments is not None:
            _act(detent, shown, wanted, as_json)
        elif as_json:
            output.print_json(shown.to_json())
        elif sys.stdin.isatty() and output.is_terminal():
            ReviewSession(detent, shown).run()
        else:
            shown.print()


def _act(detent: Connection, shown: Shown, wanted: Wanted, as_json: bool) -> None:
    """Save comments, send the verdict and publish drafts, in this order."""
    about = shown.judged(wanted.diff and named_diff(shown.review, wanted.diff))
    done: dict[str, Any] = {"task_id": shown.task_id}
    sentences: list[str] = []
    general = ""
    if wanted.comments is not None:
        text, general = _save(detent, shown, wanted.comments)
        sentences.append(text)
    if wanted.verdict is not None:
        comment = wanted.message or general or None
        done = detent.call(VERDICTS[wanted.verdict], **about, comment=comment)
    elif general:
        output.print_note("The comment on the whole work was not sent: it needs a verdict.")
    if wanted.publish or (sentences and wanted.verdict not in (None, "changes")):
        published = detent.call("publish_drafts", task_id=shown.task_id)["published"]
        done = {**done, "published": published}
        sentences.append(f"{quantity(len(published), 'comment')} published.")
    if sentences and not as_json:
        output.print_text(" ".join(sentences))
    if as_json or wanted.verdict is not None:
        print_outcome(done, as_json)


def _save(detent: Connection, shown: Shown, comments: BinaryIO) -> tuple[str, str]:
    """Save comments as drafts; what was done, and the comment on the whole work."""
    if shown.diff is None:
        raise Refused(f"Task {shown.task_id} has no diff to review.", code="no_diff")
    edits = edits_in(shown.diff, comments.read(), comments.name)
    return send(detent, shown.diff, requests_of(shown.diff, edits)), edits.general
