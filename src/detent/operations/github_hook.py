"""GitHub's webhook: the signature of a delivery, and the issues and branches it names. Pure."""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detent.operations.forge_hook import Hook, Named

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
NUMBERS = (("issue", "number"), ("pull_request", "number"))


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
    repo = _at(payload, ("repository", "full_name"))
    if not isinstance(repo, str):
        return None
    branches = [*(_at(payload, path) for path in BRANCHES), *_branches_of_status(payload)]
    if headers.get(EVENT) in ("push", "delete"):
        branches.append(str(_at(payload, ("ref",))).removeprefix("refs/heads/"))
    numbers = [_at(payload, path) for path in NUMBERS]
    return Named(
        repo,
        tuple(sorted({each for each in branches if isinstance(each, str)})),
        tuple(sorted({each for each in numbers if type(each) is int})),
    )


def _branches_of_status(payload: Any) -> Iterator[Any]:
    found = payload.get("branches") if isinstance(payload, dict) else None
    for each in found if isinstance(found, list) else ():
        yield _at(each, ("name",))


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


GITHUB_HOOK = Hook("github", "github_webhook_secret", "github_repositories", signed, ident, named)
