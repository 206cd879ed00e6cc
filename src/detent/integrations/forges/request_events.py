"""Decides which event a task gets from the current state of its pull request. Pure.

Only what the forge shows now counts, never the content of a delivery: deliveries arrive late, twice
and in any order. A check, a verdict or a conflict counts only if it is about the commit that the
task has pushed last; after the next push it is about an older one, so nothing is handled twice.
"""

from typing import NamedTuple

from detent.integrations.forges.forge import Check, PullRequest

#: The states in which a task waits for its pull request.
REVIEWED = ("open", "approved")
LONGEST_LOG = 8_000


class Sent(NamedTuple):
    """An event for the task, with the comment that says why."""

    event: str
    comment: str | None = None


class Pushed(NamedTuple):
    """What a worker has pushed last."""

    branch: str
    commit: str


def next_event(
    state: str, pushed: Pushed, request: PullRequest, *, unread: bool = False
) -> Sent | None:
    """The event that the request calls for; None if there is nothing to do.

    `unread`: reviewers have commented on lines since the agent's last run began.
    """
    if request.state == "merged":
        return Sent("task_merged", f"{request.url} was merged.")
    if request.state == "closed":
        return Sent("task_closed", closed(request))
    if state == "pushed":
        return Sent("task_opened", request.url) if request.head == pushed.commit else None
    if state not in REVIEWED:
        return None
    if not request.has_branch:
        return Sent("task_needs_person", without_branch(request))
    return _back_to_work(request, pushed, unread=unread) or _approval(state, request)


def closed(request: PullRequest) -> str:
    """Why the request has ended without a merge."""
    cause = "" if request.has_branch else f": its branch {request.branch} was deleted"
    return f"{request.url} was closed without a merge{cause}."


def without_branch(request: PullRequest) -> str:
    """Why nothing happens to an open request any more."""
    return (
        f"The branch {request.branch} of {request.url} was deleted. Accept the task to have it "
        "pushed again, or close the request."
    )


def foreign_head(request: PullRequest, pushed: Pushed) -> str:
    """Why detent cannot push to a branch that others have changed."""
    return (
        f"The branch {request.branch} is at {request.head[:12]}, and detent has pushed "
        f"{pushed.commit[:12]}: others have pushed to it. Merge or close {request.url}, or put the "
        "branch back to the commit that detent has pushed and accept the task again."
    )


# ---- back to work ----------------------------------------------------------------------------


def _back_to_work(request: PullRequest, pushed: Pushed, *, unread: bool) -> Sent | None:
    reason = _changes(request, unread=unread) or _checks(request) or _conflict(request)
    if reason is None or request.head == pushed.commit:
        return reason
    return Sent("task_needs_person", foreign_head(request, pushed))


def _changes(request: PullRequest, *, unread: bool) -> Sent | None:
    """A request for changes that is about the last commit, or new comments on lines."""
    asked = [
        each
        for each in request.reviews
        if each.trusted and each.verdict == "changes_requested" and each.commit == request.head
    ]
    if not asked and not unread:
        return None
    texts = [f"{each.author}: {each.body}" for each in asked if each.body.strip()]
    first = f"Reviewers of {request.url} ask for changes."
    return Sent("task_changes_requested", "\n\n".join([first, *texts]))


def _checks(request: PullRequest) -> Sent | None:
    """Failed checks; not before all have ended, so that one round corrects all of them."""
    failed = [each for each in request.checks if each.state == "failed"]
    if not failed or any(each.state == "pending" for each in request.checks):
        return None
    first = f"Checks of {request.url} have failed at commit {request.head[:12]}."
    return Sent("task_checks_failed", "\n\n".join([first, *map(_described, failed)]))


def _described(check: Check) -> str:
    log = check.log.strip()
    where = f" ({check.url})" if check.url else ""
    return f"{check.name}{where}:\n{log[-LONGEST_LOG:]}" if log else f"{check.name}{where}"


def _conflict(request: PullRequest) -> Sent | None:
    if not request.conflict:
        return None
    return Sent(
        "task_conflicted",
        f"{request.url} cannot be merged: the branch {request.branch} conflicts with "
        f"{request.base}. Run `git fetch origin {request.base}` and `git merge FETCH_HEAD`, "
        "resolve the conflicts, check the result and commit it.",
    )


# ---- approval --------------------------------------------------------------------------------


def _approval(state: str, request: PullRequest) -> Sent | None:
    if state == "approved":
        return None if is_approved(request) else Sent("task_needs_person", _not_approved(request))
    passed = all(each.state == "passed" for each in request.checks)
    if is_approved(request) and passed and request.conflict is False:
        return Sent("task_approved", f"{request.url} is approved.")
    return None


def is_approved(request: PullRequest) -> bool:
    """Whether a person who may write to the repository has approved the last commit, and none asks
    for changes. An approval of an older commit is not about what the agent has pushed since."""
    verdicts = [each for each in request.reviews if each.trusted]
    asked = any(each.verdict == "changes_requested" for each in verdicts)
    return not asked and any(
        each.verdict == "approved" and each.commit == request.head for each in verdicts
    )


def _not_approved(request: PullRequest) -> str:
    """Why a request that was approved is not approved any more."""
    if any(each.trusted and each.verdict == "approved" for each in request.reviews):
        return f"{request.url} was approved before its last commit, {request.head[:12]}."
    return f"The approval of {request.url} was withdrawn."


def can_be_merged(state: str, pushed: Pushed, request: PullRequest) -> bool:
    """Whether it is approved, checked and without conflicts, at the commit that was pushed."""
    ready = is_approved(request) and request.conflict is False
    passed = all(each.state == "passed" for each in request.checks)
    same = request.head == pushed.commit
    return state == "approved" and request.state == "open" and ready and passed and same
