"""What GitLab refuses in a request: other types, unknown and missing fields.

The fields of bodies are those of python-gitlab's managers, the types and the options of lists those
that @gitbeaker/core declares.
"""

import json
from collections.abc import Mapping

from gitlab.types import RequiredOptional
from gitlab.v4 import objects

from verification.gitlab import gitlab_schemas
from verification.gitlab.gitlab_state import Json, Refusal

#: By method and route, the fields of the body, and what declares their types.
BODIES: Mapping[str, tuple[RequiredOptional, str | None]] = {
    "POST notes": (objects.ProjectIssueNoteManager._create_attrs, None),
    "POST discussion notes": (
        objects.ProjectMergeRequestDiscussionNoteManager._create_attrs,
        None,
    ),
    "POST merge_requests": (objects.ProjectMergeRequestManager._create_attrs, "create_request"),
    "PUT discussion": (objects.ProjectMergeRequestDiscussionManager._update_attrs, None),
    "POST statuses": (objects.ProjectCommitStatusManager._create_attrs, "create_status"),
}
PAGES = ("page", "per_page")


def body_of(headers: Mapping[str, str], body: bytes) -> Json:
    if not body:
        return {}
    if headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refusal(415, "The provided content-type is not supported")
    found = json.loads(body)
    return found if isinstance(found, dict) else {}


def checked(name: str, given: Json) -> Json:
    """The body of a request that creates or changes something."""
    fields, declared = BODIES[name]
    for each in fields.required:
        if given.get(each) in (None, ""):
            raise Refusal(400, f"{each} is missing")
    _check_names(given, {*fields.required, *fields.optional, *fields.exclusive})
    if declared is not None:
        _check_types(declared, given)
    return given


def merge_options(query: Mapping[str, str], body: Json) -> Json:
    """The options of a merge. python-gitlab sends them in the query, as GitLab allows."""
    words = {"True": True, "true": True, "False": False, "false": False}
    given = {**{name: words.get(value, value) for name, value in query.items()}, **body}
    _check_names(given, gitlab_schemas.options("accept_request"))
    _check_types("accept_request", given)
    return given


def check_query(query: Mapping[str, str], allowed: frozenset[str] | str) -> None:
    """Refuse options that a list does not have, or values that they cannot have."""
    names = gitlab_schemas.options(allowed) if isinstance(allowed, str) else allowed
    given = {name: value for name, value in query.items() if name not in PAGES}
    _check_names(given, names)
    if isinstance(allowed, str):
        _check_types(allowed, given)


def _check_names(given: Mapping[str, object], allowed: set[str] | frozenset[str]) -> None:
    for each in given.keys() - allowed:
        raise Refusal(400, f"{each} is not an attribute of this request")


def _check_types(kind: str, given: Mapping[str, object]) -> None:
    try:
        gitlab_schemas.check_options(kind, given)
    except AssertionError as error:
        raise Refusal(400, str(error)) from None
