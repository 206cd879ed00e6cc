"""Accepting with an action: what a verdict does before the task is accepted, as a job of the task.

The options of such a job have `ACCEPTANCE`: the verdict, and the action that the worker carries out
for it. Its id is the key of the verdict. Pure.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from detent.kernel.entities import Job, Task
from detent.kernel.traceparent import TRACEPARENT
from detent.kernel.variants import CHOSEN

#: In the options of a job: the verdict whose action it carries out. No submission can set it.
ACCEPTANCE = "acceptance"
#: In the result of such a job: the files that could not be merged.
CONFLICTS = "conflicts"
#: How many conflicting files the message to the agent names.
MAX_NAMED = 50
#: The options of a task that its acceptance has too.
OPTIONS = ("target_branch", "push_remote", "workspace", "retry", CHOSEN, TRACEPARENT)


class OnAccept(StrEnum):
    """What happens to the work before its task is accepted."""

    NOTHING = "nothing"
    MERGE = "merge"
    PUSH = "push"


def action_of(options: Mapping[str, Any]) -> OnAccept | None:
    """The action that the options of a task declare; None if accepting it does nothing else."""
    declared = options.get("on_accept") if options else None
    action = OnAccept.NOTHING if declared is None else OnAccept(str(declared).casefold())
    return None if action is OnAccept.NOTHING else action


def is_acceptance(job: Job) -> bool:
    """Whether the job carries out the action of a verdict."""
    return bool(job.options) and ACCEPTANCE in job.options


def options_of_job(task: Task, by: str, comment: str | None, diff: str | None) -> Mapping[str, Any]:
    """The options of the job that carries out the action of a verdict."""
    kept = {name: task.options[name] for name in OPTIONS if name in task.options}
    action = (action_of(task.options) or OnAccept.NOTHING).value
    verdict = {"action": action, "by": by, "comment": comment, "diff": diff}
    return {**kept, ACCEPTANCE: verdict}


def conflicts_in(result: Any) -> Sequence[str]:
    """The files that an acceptance could not merge, from the result of its job."""
    found = result.get(CONFLICTS) if isinstance(result, Mapping) else None
    return [str(each) for each in found] if isinstance(found, list | tuple) else []


def conflict_message(result: Mapping[str, Any]) -> str:
    """The message to the agent about a conflict: its next round begins with it."""
    files, target = conflicts_in(result), result.get("target", "the target branch")
    named = [f"- {each}" for each in files[:MAX_NAMED]]
    if len(files) > MAX_NAMED:
        named.append(f"- and {len(files) - MAX_NAMED} more")
    listed = "\n".join(named)
    return (
        f"Your work was accepted, but it cannot be merged into {target}: these files have "
        f"conflicts.\n{listed}\nYour changes are committed on your branch. Merge {target} into "
        "your branch, resolve the conflicts, check the result and commit it."
    )
