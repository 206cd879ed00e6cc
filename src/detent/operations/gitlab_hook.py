"""The webhook of GitLab: a signing token or a secret token, the delivery id, and what it names."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

from detent.operations.forge_hook import Hook, Named, names, numbers, value_at

TOKEN, SIGNATURE = "x-gitlab-token", "webhook-signature"
SIGNED_ID, SIGNED_AT = "webhook-id", "webhook-timestamp"
#: The headers with the id of a delivery; the first one is the same in every attempt.
IDS = ("idempotency-key", "x-gitlab-event-uuid")
#: The beginning of a signing token. Any other secret is a secret token.
SIGNING = "whsec_"
IDENT = re.compile(r"[0-9A-Za-z-]{8,64}")
#: Where a payload has the name of a branch.
BRANCHES = (
    ("object_attributes", "source_branch"),
    ("merge_request", "source_branch"),
    ("object_attributes", "ref"),
)


def signed(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the delivery is signed with the signing token, or has the secret token."""
    if not secret.startswith(SIGNING):
        given = headers.get(TOKEN, "")
        return hmac.compare_digest(secret.encode(), given.encode("utf-8", "replace"))
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING), validate=True)
    except ValueError:
        key = b""
    if not key:
        return False
    signed_text = f"{headers.get(SIGNED_ID, '')}.{headers.get(SIGNED_AT, '')}.".encode()
    made = base64.b64encode(hmac.new(key, signed_text + body, hashlib.sha256).digest())
    signatures = [each.encode("utf-8", "replace") for each in headers.get(SIGNATURE, "").split()]
    return any(hmac.compare_digest(b"v1," + made, each) for each in signatures)


def ident(headers: Mapping[str, str]) -> str | None:
    """The id of a delivery. With a signing token, only the signed id is used."""
    names = (SIGNED_ID,) if SIGNATURE in headers else IDS
    found = (headers[name] for name in names if IDENT.fullmatch(headers.get(name, "")))
    return next(found, None)


def named(headers: Mapping[str, str], payload: Any) -> Named | None:
    """What the delivery is about; None if it names no project."""
    repo = value_at(payload, ("project", "path_with_namespace"))
    if not isinstance(repo, str):
        return None
    kind = value_at(payload, ("object_kind",))
    branches = [value_at(payload, path) for path in BRANCHES]
    if kind == "push":
        branches.append(str(value_at(payload, ("ref",))).removeprefix("refs/heads/"))
    if kind == "build":
        branches.append(value_at(payload, ("ref",)))
    issue = "object_attributes" if kind in ("issue", "work_item") else "issue"
    request = "object_attributes" if kind == "merge_request" else "merge_request"
    issues, requests = (numbers([value_at(payload, (each, "iid"))]) for each in (issue, request))
    return Named(repo, names(branches), issues, requests)


GITLAB_HOOK = Hook("gitlab", "gitlab_webhook_secret", "gitlab_repositories", signed, ident, named)
