"""The documents of the GitLab of tests. Each has the whole declared shape, and is checked."""

from collections.abc import Sequence
from typing import Any

from verification.gitlab.gitlab_schemas import Json, document
from verification.gitlab.gitlab_state import (
    IssueState,
    MergeRequestState,
    NoteState,
    ProjectState,
    StatusState,
)

PROJECT_ID = 1
#: The ids of issues and merge requests; their numbers are per project.
ISSUE, REQUEST = 10_000, 20_000


def person(name: str) -> Json:
    """The fields of a person in other documents."""
    return {"id": sum(name.encode()), "username": name, "name": name, "state": "active"}


def account(url: str, name: str) -> Json:
    """The account of a token; python-gitlab compares its address with the one that it uses."""
    return document("user", {**person(name), "web_url": f"{url}/{name}"})


def project(found: ProjectState) -> Json:
    return document("project", hook_project(found))


def member(name: str, level: int) -> Json:
    return document("member", {**person(name), "access_level": level})


def branch(name: str, head: str) -> Json:
    return document("branch", {"name": name, "commit": {"id": head, "short_id": head[:8]}})


# ---- issues ------------------------------------------------------------------------------------


def issue(url: str, found: IssueState) -> Json:
    times = {"created_at": found.updated_at, "updated_at": found.updated_at}
    return document(
        "issue",
        {
            "id": ISSUE + found.iid,
            "iid": found.iid,
            "project_id": PROJECT_ID,
            **times,
            "title": found.title,
            "description": found.description or None,
            "state": found.state,
            "labels": found.labels,
            "author": person("someone"),
            "assignees": [person(each) for each in found.assignees],
            "user_notes_count": sum(not each.system for each in found.notes),
            "web_url": f"{url}/-/issues/{found.iid}",
        },
    )


def _note_fields(note: NoteState, kind: str, iid: int) -> Json:
    first = ISSUE if kind == "Issue" else REQUEST
    return {
        "id": note.id,
        "body": note.body,
        "author": person(note.author),
        "system": note.system,
        "noteable_id": first + iid,
        "noteable_iid": iid,
        "noteable_type": kind,
        "created_at": note.created_at,
        "updated_at": note.created_at,
        "resolvable": note.position is not None,
    }


def issue_note(note: NoteState, iid: int) -> Json:
    return document("note", {**_note_fields(note, "Issue", iid), "project_id": PROJECT_ID})


# ---- merge requests ----------------------------------------------------------------------------


def _request_fields(url: str, found: MergeRequestState) -> Json:
    return {
        "id": REQUEST + found.iid,
        "iid": found.iid,
        "project_id": PROJECT_ID,
        "source_project_id": PROJECT_ID,
        "target_project_id": PROJECT_ID,
        "title": found.title,
        "description": found.description,
        "state": found.state,
        "sha": found.sha,
        "source_branch": found.source_branch,
        "target_branch": found.target_branch,
        "author": person("detent-bot"),
        "reviewers": [person(each) for each in found.reviewers],
        "created_at": found.versions[0][1] if found.versions else "",
        "web_url": f"{url}/-/merge_requests/{found.iid}",
    }


def listed_request(url: str, found: MergeRequestState) -> Json:
    return document("listed_request", _request_fields(url, found))


def request(url: str, found: MergeRequestState, *, conflict: bool | None) -> Json:
    """A merge request; whether it has conflicts is not known while GitLab computes it."""
    status = {None: "checking", True: "cannot_be_merged", False: "can_be_merged"}[conflict]
    cause = {None: "checking", True: "conflict", False: "mergeable"}[conflict]
    merging = {"merge_status": status, "detailed_merge_status": cause}
    shown = {**_request_fields(url, found), **merging, "has_conflicts": bool(conflict)}
    return document("request", shown)


def reviewer(name: str, state: str) -> Json:
    return document("reviewer", {"user": person(name), "state": state})


def approvals(found: MergeRequestState) -> Json:
    by = [{"user": person(each)} for each in found.approved_by]
    ids = {"id": REQUEST + found.iid, "iid": found.iid, "project_id": PROJECT_ID}
    shown = {"approved": bool(by), "approved_by": by, "state": found.state}
    return document("approvals", {**ids, "title": found.title, **shown})


def version(at: int, sha: str, time: str) -> Json:
    commits = {"head_commit_sha": sha, "base_commit_sha": sha, "start_commit_sha": sha}
    return document("version", {"id": at, **commits, "created_at": time, "state": "collected"})


def _discussion_note_fields(note: NoteState, iid: int) -> Json:
    kind = "DiffNote" if note.position else None
    found = {**_note_fields(note, "MergeRequest", iid), "type": kind}
    if note.position is not None:
        found |= {"position": note.position, "resolved": note.resolved}
    return found


def discussion_note(note: NoteState, iid: int) -> Json:
    return document("discussion_note", _discussion_note_fields(note, iid))


def discussion(name: str, notes: Sequence[NoteState], iid: int) -> Json:
    shown = [_discussion_note_fields(each, iid) for each in notes]
    individual = notes[0].position is None
    return document("discussion", {"id": name, "individual_note": individual, "notes": shown})


def status(found: StatusState, commit: str) -> Json:
    fields: dict[str, Any] = {"id": found.id, "sha": commit, "name": found.name}
    return document(
        "status",
        {
            **fields,
            "status": found.status,
            "description": found.description,
            "allow_failure": found.allow_failure,
            "author": person("detent-bot"),
            "target_url": f"https://ci.example/{found.id}",
        },
    )


# ---- deliveries --------------------------------------------------------------------------------


def hook_project(found: ProjectState) -> Json:
    name = found.path.split("/")[-1]
    shown = {"path_with_namespace": found.path, "default_branch": "main"}
    return {"id": PROJECT_ID, "name": name, **shown}


def hook_issue(found: IssueState) -> Json:
    return {
        "id": ISSUE + found.iid,
        "iid": found.iid,
        "title": found.title,
        "description": found.description,
        "state": found.state,
        "updated_at": found.updated_at,
    }


def hook_request(found: MergeRequestState) -> Json:
    return {
        "id": REQUEST + found.iid,
        "iid": found.iid,
        "title": found.title,
        "state": found.state,
        "source_branch": found.source_branch,
        "target_branch": found.target_branch,
        "last_commit": {"id": found.sha},
    }
