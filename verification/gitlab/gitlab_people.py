"""What people and CI do at the GitLab of tests. Each action makes the delivery of a webhook."""

import json
import uuid
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook

from verification.github.github_people import Delivery
from verification.gitlab import gitlab_documents as documents
from verification.gitlab.gitlab_schemas import Json, document
from verification.gitlab.gitlab_state import (
    IssueState,
    MergeRequestState,
    NoteState,
    ProjectState,
    StatusState,
    now,
)

#: By the kind of a delivery, its header.
HEADERS = {
    "issue_event": "Issue Hook",
    "issue_note_event": "Note Hook",
    "request_event": "Merge Request Hook",
    "request_note_event": "Note Hook",
    "pipeline_event": "Pipeline Hook",
    "push_event": "Push Hook",
}
STATES = {"approved": "approved", "changes_requested": "requested_changes"}
TEXTS = {"approved": "approved this merge request", "changes_requested": "requested changes"}


def delivery(secret: str, header: str, body: str) -> Delivery:
    """A delivery that is signed with a signing token."""
    ident, at = str(uuid.uuid4()), datetime.now(UTC)
    headers = {
        "content-type": "application/json",
        "x-gitlab-event": header,
        "x-gitlab-event-uuid": str(uuid.uuid4()),
        "idempotency-key": ident,
        "webhook-id": ident,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(ident, at, body),
    }
    return Delivery(headers, body.encode())


class GitLabPeople:
    """The people of one project. Deliveries collect in `waiting` until they are sent."""

    def __init__(self, project: ProjectState, secret: str) -> None:
        self.project, self.secret = project, secret
        self.waiting: list[Delivery] = []

    def _announce(self, kind: str, given: Json) -> None:
        common: Json = {"project": documents.hook_project(self.project)}
        if kind != "push_event":
            common["user"] = documents.person("someone")
        payload = document(kind, {**common, **given})
        self.waiting.append(delivery(self.secret, HEADERS[kind], json.dumps(payload)))

    def _id(self) -> int:
        return next(self.project.ids)

    # -- issues ----------------------------------------------------------------------------

    def open_issue(self, title: str, body: str, labels: tuple[str, ...]) -> IssueState:
        made = IssueState(len(self.project.issues) + 1, title, body, list(labels))
        self.project.issues[made.iid] = made
        shown = {**documents.hook_issue(made), "action": "open"}
        self._announce("issue_event", {"object_attributes": shown})
        return made

    def comment(self, issue: IssueState, text: str, author: str) -> None:
        issue.notes.append(NoteState(self._id(), author, "changed the description", system=True))
        made = NoteState(self._id(), author, text)
        issue.notes.append(made)
        shown = {"id": made.id, "note": text, "noteable_type": "Issue"}
        given = {"object_attributes": shown, "issue": documents.hook_issue(issue)}
        self._announce("issue_note_event", given)

    # -- merge requests --------------------------------------------------------------------

    def review(self, request: MergeRequestState, verdict: str, author: str, text: str = "") -> None:
        """Approve, or request changes; the text is a comment in the conversation."""
        request.reviewers[author] = STATES[verdict]
        request.approved_by = [each for each in request.approved_by if each != author]
        if verdict == "approved":
            request.approved_by.append(author)
        if text:
            self._add(request, NoteState(self._id(), author, text))
        action = STATES[verdict]
        self._add(
            request, NoteState(self._id(), author, TEXTS[verdict], system=True, action=action)
        )
        self.announce_request(request, "approved" if verdict == "approved" else "update")

    def comment_on_line(self, request: MergeRequestState, file: str, line: int, text: str) -> None:
        place = {"position_type": "text", "old_path": file, "new_path": file, "new_line": line}
        made = NoteState(self._id(), "alice", text, position={**place, "old_line": None})
        self._add(request, made)
        shown = {"id": made.id, "note": text, "noteable_type": "MergeRequest"}
        given = {"object_attributes": shown, "merge_request": documents.hook_request(request)}
        self._announce("request_note_event", given)

    def _add(self, request: MergeRequestState, note: NoteState) -> None:
        request.discussions[f"d{note.id}"] = [note]

    def close(self, request: MergeRequestState) -> None:
        request.state = "closed"
        self.announce_request(request, "close")

    def announce_request(self, request: MergeRequestState, action: str = "update") -> None:
        shown = {**documents.hook_request(request), "action": action, "updated_at": now()}
        self._announce("request_event", {"object_attributes": shown})

    def pushed(self, branch: str) -> None:
        """Announce that a person has pushed to a branch."""
        after = self.project.git.head(branch) or "0" * 40
        given = {"ref": f"refs/heads/{branch}", "after": after, "before": "0" * 40}
        self._announce("push_event", given)

    # -- CI --------------------------------------------------------------------------------

    def check(self, request: MergeRequestState, name: str, status: str, log: str) -> None:
        """A job for the last commit."""
        coloured = f"section_start:1794955160:script\r\x1b[0K\x1b[31m{log}\x1b[0m"
        made = StatusState(self._id(), name, status, trace=coloured)
        self.project.statuses.setdefault(request.sha, []).append(made)
        shown = {"ref": request.source_branch, "sha": request.sha, "status": status}
        job = {"id": made.id, "name": name, "status": status}
        self._announce("pipeline_event", {"object_attributes": shown, "builds": [job]})
