"""The documents of the GitHub of tests, complete by the published schemas (githubkit-schemas)."""

from typing import Any

from githubkit_schemas.latest import models

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

HTML = "https://github.example"


def user(login: str) -> Json:
    return {"login": login, "type": "User", "html_url": f"{HTML}/{login}"}


def account(login: str) -> Json:
    return document(models.PublicUser, {"login": login, "type": "User"})


def repository(repo: RepoState) -> Json:
    return document(
        models.FullRepository,
        {
            "full_name": repo.full_name,
            "name": repo.full_name.partition("/")[2],
            "owner": user(repo.owner),
            "default_branch": "main",
        },
    )


def short_repository(repo: RepoState) -> Json:
    return {"full_name": repo.full_name, "name": repo.full_name.partition("/")[2]}


def issue_fields(repo: RepoState, issue: IssueState) -> Json:
    return {
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": issue.state,
        "html_url": f"{HTML}/{repo.full_name}/issues/{issue.number}",
        "user": user("reporter"),
        "labels": [{"name": each} for each in issue.labels],
        "assignees": [user(each) for each in issue.assignees],
        "comments": len(issue.comments),
        "updated_at": issue.updated_at,
    }


def issue(repo: RepoState, found: IssueState) -> Json:
    return document(models.Issue, issue_fields(repo, found))


def comment_fields(found: Comment) -> Json:
    return {
        "id": found.id,
        "body": found.body,
        "user": user(found.author),
        "author_association": found.association,
    }


def comment(found: Comment) -> Json:
    return document(models.IssueComment, comment_fields(found))


def pull_fields(repo: RepoState, pull: PullState) -> Json:
    return {
        "number": pull.number,
        "title": pull.title,
        "body": pull.body,
        "state": pull.state,
        "html_url": f"{HTML}/{repo.full_name}/pull/{pull.number}",
        "user": user("detent-bot"),
        "head": {"ref": pull.branch, "sha": repo.head_of(pull), "label": pull.branch},
        "base": {"ref": pull.base, "sha": repo.head(pull.base) or "", "label": pull.base},
    }


def pull(repo: RepoState, found: PullState) -> Json:
    return document(
        models.PullRequest,
        {
            **pull_fields(repo, found),
            "merged": found.merged,
            "mergeable": repo.mergeable(found),
        },
    )


def short_pull(repo: RepoState, found: PullState) -> Json:
    return document(models.PullRequestSimple, pull_fields(repo, found))


def review(found: ReviewState) -> Json:
    given = {
        "id": found.id,
        "user": user(found.author),
        "state": found.state,
        "commit_id": found.commit,
        "body": found.body,
        "author_association": found.association,
    }
    return document(models.PullRequestReview, given)


def check(repo: RepoState, sha: str, found: CheckState) -> Json:
    given = {
        "id": found.id,
        "name": found.name,
        "head_sha": sha,
        "status": "in_progress" if found.conclusion is None else "completed",
        "conclusion": found.conclusion,
        "html_url": f"{HTML}/{repo.full_name}/runs/{found.id}",
        "app": {"slug": "github-actions", "name": "GitHub Actions"},
    }
    return document(models.CheckRun, given)


def checks(repo: RepoState, sha: str) -> Json:
    found = [check(repo, sha, each) for each in repo.checks.get(sha, ())]
    return {"total_count": len(found), "check_runs": found}


def status(given: Json) -> Json:
    return document(models.Status, given)


def combined(repo: RepoState, sha: str) -> Json:
    last = {each["context"]: each for each in repo.statuses.get(sha, ())}
    states = {each["state"] for each in last.values()}
    failed = {"failure", "error"} & states
    given = {
        "sha": sha,
        "state": "failure" if failed else "success" if states == {"success"} else "pending",
        "total_count": len(last),
        "statuses": [{key: each[key] for key in SIMPLE_STATUS} for each in last.values()],
        "repository": short_repository(repo),
    }
    return document(models.CombinedCommitStatus, given)


SIMPLE_STATUS = ("id", "state", "context", "description", "target_url")


def ref(branch: str, sha: str) -> Json:
    given = {"ref": f"refs/heads/{branch}", "object": {"sha": sha, "type": "commit", "url": ""}}
    return document(models.GitRef, given)


def thread(found: ThreadState) -> Json:
    """A thread for GraphQL, which has no published model in githubkit."""
    nodes: list[Any] = [
        {
            "__typename": "PullRequestReviewComment",
            "databaseId": each.id,
            "body": each.body,
            "authorAssociation": each.association,
            "author": {"login": each.author},
        }
        for each in found.comments
    ]
    return {
        "__typename": "PullRequestReviewThread",
        "id": found.id,
        "isResolved": found.resolved,
        "path": found.path,
        "diffSide": found.side,
        "line": found.line,
        "startLine": None,
        "originalLine": found.line,
        "originalStartLine": None,
        "comments": {"nodes": nodes},
    }
