"""GitHub's webhook: the signature of a delivery, and the issues and branches it names. Pure."""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detent.operations.forge_hook import Hook, Named, names, numbers, value_at

EVENT, DELIVERY, SIGNATURE = "x-github-event", "x-github-delivery", "x-hub-signature-256"
#: Delivery ids are GUIDs.
IDENT = re.compile(r"[0-9A-Za-z-]{8,64}")
#: Where a payload has the name of a branch.
BRANCHES = (
    ("pull_request", "head", "ref"),
    ("check_suite", "head_branch"),
    ("check_run", "check_suite", "head_branch"),
    ("workflow_run", "head_branch"),
)


def signed(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the signature of the body was made with the secret."""
    made = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = headers.get(SIGNATURE, "")
    return hmac.compare_digest(f"sha256={made}".encode(), given.encode("utf-8", "replace"))


def ident(headers: Mapping[str, str]) -> str | None:
    """The id of a delivery; GitHub sends it again when a person repeats the delivery."""
    given = headers.get(DELIVERY, "")
    return given if IDENT.fullmatch(given) else None


def named(headers: Mapping[str, str], payload: Any) -> Named | None:
    """What the delivery is about; None if it names no repository, as a ping of an organisation."""
    repo = value_at(payload, ("repository", "full_name"))
    if not isinstance(repo, str):
        return None
    branches = [*(value_at(payload, path) for path in BRANCHES), *_branches_of_status(payload)]
    if headers.get(EVENT) in ("push", "delete"):
        branches.append(str(value_at(payload, ("ref",))).removeprefix("refs/heads/"))
    issue, request = value_at(payload, ("issue",)), value_at(payload, ("pull_request",))
    if value_at(issue, ("pull_request",)) is not None:
        issue, request = None, issue  # in deliveries about comments, a pull request is an issue
    issues, requests = (numbers([value_at(each, ("number",))]) for each in (issue, request))
    return Named(repo, names(branches), issues, requests)


def _branches_of_status(payload: Any) -> Iterator[Any]:
    found = payload.get("branches") if isinstance(payload, dict) else None
    for each in found if isinstance(found, list) else ():
        yield value_at(each, ("name",))


GITHUB_HOOK = Hook("github", "github_webhook_secret", "github_repositories", signed, ident, named)
