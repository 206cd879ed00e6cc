"""What people and CI do at the GitHub of tests. Each action makes the delivery of a webhook."""

import hashlib
import hmac
import itertools
import json
import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from githubkit_schemas.latest import models
from pydantic import BaseModel

from verification.github import github_documents as documents
from verification.github.github_state import (
    CheckState,
    Comment,
    IssueState,
    Json,
    PullState,
    RepoState,
    ReviewState,
    ThreadState,
)
from verification.github.schema_filler import document

#: A time for each change, later than the one before.
_seconds = itertools.count(1)


class Delivery(NamedTuple):
    """A delivery as it is sent."""

    headers: Mapping[str, str]
    body: bytes


def delivery(secret: str, event: str, payload: Json) -> Delivery:
    """A signed delivery."""
    body = json.dumps(payload).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return Delivery(
        {
            "content-type": "application/json",
            "user-agent": "GitHub-Hookshot/test",
            "x-github-event": event,
            "x-github-delivery": str(uuid.uuid4()),
            "x-hub-signature-256": f"sha256={signature}",
        },
        body,
    )


class People:
    """The people of one repository. Deliveries collect in `waiting` until they are sent."""

    def __init__(self, repo: RepoState, secret: str = "hook-secret") -> None:
        self.repo, self.secret = repo, secret
        self.waiting: list[Delivery] = []

    def send(
        self, post: Callable[[Delivery], Any], order: random.Random | None = None, copies: int = 1
    ) -> list[Any]:
        """Send what waits, each delivery several times, in an order that `order` chooses."""
        sent = [each for each in self.waiting for _ in range(copies)]
        self.waiting = []
        if order is not None:
            order.shuffle(sent)
        return [post(each) for each in sent]

    def _announce(self, event: str, model: type[BaseModel], given: Json) -> None:
        common = {
            "repository": {
                **documents.short_repository(self.repo),
                "owner": documents.user(self.repo.owner),
            },
            "sender": documents.user("someone"),
        }
        payload = document(model, {**common, **given})
        self.waiting.append(delivery(self.secret, event, payload))

    # -- issues ----------------------------------------------------------------------------

    def open_issue(self, title: str, body: str = "", labels: tuple[str, ...] = ()) -> IssueState:
        issue = IssueState(next(self.repo.numbers), title, body, updated_at=_time())
        self.repo.issues[issue.number] = issue
        for name in labels:
            self.label(issue, name)
        return issue

    def label(self, issue: IssueState, name: str) -> None:
        issue.labels.append(name)
        issue.updated_at = _time()
        fields = documents.issue_fields(self.repo, issue)
        self._announce(
            "issues", models.WebhookIssuesLabeled, {"issue": fields, "label": {"name": name}}
        )

    def assign(self, issue: IssueState, login: str) -> None:
        issue.assignees.append(login)
        issue.updated_at = _time()
        fields = documents.issue_fields(self.repo, issue)
        self._announce("issues", models.WebhookIssuesAssigned, {"issue": fields})

    def comment(
        self, issue: IssueState, text: str, author: str = "alice", association: str = "MEMBER"
    ) -> Comment:
        made = Comment(next(self.repo.ids), author, association, text)
        issue.comments.append(made)
        issue.updated_at = _time()
        given = {
            "issue": documents.issue_fields(self.repo, issue),
            "comment": documents.comment_fields(made),
        }
        self._announce("issue_comment", models.WebhookIssueCommentCreated, given)
        return made

    # -- reviews ---------------------------------------------------------------------------

    def review(
        self, pull: PullState, state: str, body: str = "", author: str = "alice"
    ) -> ReviewState:
        head = self.repo.head_of(pull)
        made = ReviewState(next(self.repo.ids), author, state, head, body)
        pull.reviews.append(made)
        fields = documents.pull_fields(self.repo, pull)
        review = {"id": made.id, "state": state.lower(), "body": body, "commit_id": head}
        given = {"pull_request": fields, "review": review}
        self._announce("pull_request_review", models.WebhookPullRequestReviewSubmitted, given)
        return made

    def comment_on_line(self, pull: PullState, path: str, line: int, text: str) -> ThreadState:
        made = Comment(next(self.repo.ids), "alice", "MEMBER", text)
        thread = ThreadState(f"PRRT_{made.id}", path, line, "RIGHT", [made])
        pull.threads.append(thread)
        self._announce_comment(pull, thread, made)
        return thread

    def reply(self, pull: PullState, thread: ThreadState, text: str) -> None:
        made = Comment(next(self.repo.ids), "alice", "MEMBER", text)
        thread.comments.append(made)
        self._announce_comment(pull, thread, made)

    def _announce_comment(self, pull: PullState, thread: ThreadState, made: Comment) -> None:
        comment = {**documents.comment_fields(made), "path": thread.path, "line": thread.line}
        given = {"pull_request": documents.pull_fields(self.repo, pull), "comment": comment}
        model = models.WebhookPullRequestReviewCommentCreated
        self._announce("pull_request_review_comment", model, given)

    # -- pull requests and branches --------------------------------------------------------

    def merge(self, pull: PullState) -> None:
        self.repo.merge(pull, None)
        self._announce_closed(pull)

    def close(self, pull: PullState) -> None:
        self.repo.head_of(pull)
        pull.state = "closed"
        self._announce_closed(pull)

    def _announce_closed(self, pull: PullState) -> None:
        fields = documents.pull_fields(self.repo, pull)
        given = {"number": pull.number, "pull_request": fields}
        self._announce("pull_request", models.WebhookPullRequestClosed, given)

    def pushed(self, branch: str) -> None:
        """Announce that a person has pushed to a branch."""
        after = self.repo.head(branch) or "0" * 40
        given = {"ref": f"refs/heads/{branch}", "after": after, "before": "0" * 40}
        self._announce("push", models.WebhookPush, given)

    # -- CI --------------------------------------------------------------------------------

    def check(self, pull: PullState, name: str, conclusion: str | None, log: str = "") -> None:
        """A check of the last commit: pending without a conclusion."""
        head = self.repo.head_of(pull)
        known = self.repo.checks.setdefault(head, [])
        known[:] = [each for each in known if each.name != name]
        made = CheckState(next(self.repo.ids), name, conclusion, log)
        known.append(made)
        if conclusion is None:
            return
        run = {"id": made.id, "name": name, "head_sha": head, "conclusion": conclusion}
        suite = {"head_branch": pull.branch, "head_sha": head}
        given = {"check_run": {**run, "status": "completed", "check_suite": suite}}
        self._announce("check_run", models.WebhookCheckRunCompleted, given)


def _time() -> str:
    passed = next(_seconds)
    return f"2026-11-17T{12 + passed // 3600:02}:{passed // 60 % 60:02}:{passed % 60:02}Z"
