"""The diff that a verdict on the command line is about: named by its hash, or under review now."""

import re
from collections.abc import Callable
from typing import Any

import click

from detent.cli.connection import Connection
from detent.cli.diff_lines import Json
from detent.errors import Invalid

WHOLE = re.compile(r"[0-9a-f]{64}")
#: The least number of characters of a hash.
SHORTEST = 8

diff_option: Callable[[Any], Any] = click.option(
    "--diff",
    metavar="SHA256",
    help="The diff that you have read: its hash, or at least 8 characters of its beginning. "
    "Refused if the task has another diff now.",
)


def reviewed_diff(detent: Connection, task_id: str, given: str | None) -> str | None:
    """The diff that a verdict names: the given one, or the one that is under review now."""
    if given is not None:
        return named_diff(detent.call("review", task_id=task_id), given)
    current: str | None = detent.call("task_comments", task_id=task_id)["diff"]
    return current


def named_diff(review: Json, given: str) -> str:
    """The hash of the task's diff that begins with these characters; a whole hash as it is."""
    if WHOLE.fullmatch(given):
        return given
    found = (*review["earlier"], review["diff"])
    known = [str(each["sha256"]) for each in found if each is not None]
    matching = {each for each in known if each.startswith(given.lower())}
    if len(given) < SHORTEST or len(matching) != 1:
        raise Invalid(
            f"--diff must be the hash of a diff of task {review['task_id']}, or at least "
            f"{SHORTEST} characters of its beginning, not {given!r}.",
            field="diff",
            given=given,
            allowed=known,
            hint=f"The diff under review is {known[-1] if known else 'missing'}.",
        )
    return matching.pop()
