"""`detent diff`: print the diff of a task, or what changed since an earlier round."""

from collections.abc import Iterable

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.diff_lines import Json, file_lines, file_name
from detent.errors import Invalid, NotFound

HEADINGS = ("FILE", "STATUS", "ADDED", "REMOVED")


@click.command()
@click.argument("task_id", metavar="TASK")
@click.argument("path", required=False)
@click.option(
    "--since",
    type=int,
    metavar="ROUND",
    help="Show what changed since the last diff of this round; the first round is 1.",
)
@click.option("--stat", is_flag=True, help="Only list the files with their numbers of lines.")
@output.json_option
def diff(task_id: str, path: str | None, since: int | None, stat: bool, as_json: bool) -> None:
    """Show the changes of a task that is under review, or since an earlier round.

    With PATH, show this file only.
    """
    with connect() as detent:
        review = detent.call("review", task_id=task_id)
        under_review = _diff_of(review)
        earlier = None if since is None else _earlier(review, since)
        files = _files(detent, review, earlier, path)
        if not stat:
            files = with_lines(detent, review, files, earlier)
    if as_json:
        facts = {"task_id": review["task_id"], "diff": under_review["sha256"], "since": earlier}
        output.print_json({**facts, "files": files})
    elif stat:
        output.print_table(HEADINGS, [_cells(each) for each in files])
    elif not files:
        output.print_text("No file differs.")
    else:
        for line in (line for each in files for line in file_lines(each)):
            output.print_line(line)


def _diff_of(review: Json) -> Json:
    """The diff under review, if there is one."""
    found: Json | None = review["diff"]
    if found is None:
        raise NotFound(
            f"Task {review['task_id']} has no diff.",
            code="unknown_diff",
            hint="A diff is left by an agent that works in a worktree or clone.",
        )
    return found


def _earlier(review: Json, since: int) -> str:
    """The SHA-256 of the last diff of a round."""
    rounds = {each["round"]: str(each["sha256"]) for each in review["earlier"]}
    if since not in rounds:
        known = ", ".join(map(str, rounds)) or "none"
        raise Invalid(
            f"Task {review['task_id']} has no earlier diff of round {since}; rounds: {known}.",
            field="since",
            given=since,
            allowed=[str(each) for each in rounds],
        )
    return rounds[since]


def _files(detent: Connection, review: Json, earlier: str | None, path: str | None) -> list[Json]:
    """The files to show: all, or the one with the path."""
    task_id, found = review["task_id"], review["diff"]["files"]
    if earlier is not None:
        found = detent.call("review_between", task_id=task_id, since=earlier)["files"]
    elif review["diff"]["too_large"]:
        detent.call("review_file", task_id=task_id, path=path or ".")  # the error says what to do
    if path is None:
        return list(found)
    chosen = [each for each in found if path in (each["path"], each["old_path"])]
    if not chosen:  # the error lists the paths; a file that did not change is none
        _lines(detent, review, earlier, {"path": path})
    return chosen


def with_lines(
    detent: Connection, review: Json, files: Iterable[Json], earlier: str | None = None
) -> list[Json]:
    """Files of the diff under review with their hunks, or with the changes since an earlier one."""
    return [{**each, **_lines(detent, review, earlier, each)} for each in files]


def _lines(detent: Connection, review: Json, earlier: str | None, file: Json) -> Json:
    """The hunks of a file."""
    place = {"task_id": review["task_id"], "path": file["path"]}
    if earlier is None:
        shown = detent.call("review_file", **place, diff=review["diff"]["sha256"])
    else:
        shown = detent.call("review_between", **place, since=earlier)
    return {name: shown[name] for name in ("hunks", "truncated", "base_changed") if name in shown}


# ---- for people ------------------------------------------------------------------------------


def _cells(file: Json) -> tuple[str, ...]:
    status = file.get("status", "changed")
    return file_name(file), status, str(file["added"]), str(file["removed"])
