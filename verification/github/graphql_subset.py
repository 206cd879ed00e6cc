"""The part of GraphQL that detent uses: selects fields of an object, and refuses unknown ones."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: The fields of GitHub's published GraphQL schema that objects here have, by type.
FIELDS: Mapping[str, frozenset[str]] = {
    "PullRequestReviewThread": frozenset(
        (
            *("id", "isResolved", "isOutdated", "path", "diffSide", "line", "startLine"),
            *("originalLine", "originalStartLine", "comments"),
        )
    ),
    "PullRequestReviewComment": frozenset(
        ("id", "databaseId", "body", "authorAssociation", "author", "originalCommit")
    ),
}
TOKEN = re.compile(r"[{}()]|[^\s{}()]+")


class Unknown(Exception):
    """The query names a field that its type does not have."""


def selected(query: str, value: Any) -> Any:
    """The value with only the fields that the outermost selection names."""
    tokens = iter(TOKEN.findall(query))
    for token in tokens:
        if token == "(":
            _skip_arguments(tokens)
        elif token == "{":
            return _select(_selection(tokens), value)
    raise Unknown("the query selects nothing")


def _selection(tokens: Iterator[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    last = ""
    for token in tokens:
        if token == "}":
            return found
        if token == "(":
            _skip_arguments(tokens)
        elif token == "{":
            found[last] = _selection(tokens)
        else:
            found[token], last = {}, token
    raise Unknown("a brace is missing")


def _skip_arguments(tokens: Iterator[str]) -> None:
    depth = 1
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return


def _select(selection: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, list):
        return [_select(selection, each) for each in value]
    if not isinstance(value, Mapping):
        if selection:
            raise Unknown(f"a value without fields has a selection: {', '.join(selection)}")
        return value
    kind = value.get("__typename", "")
    if not selection:
        raise Unknown(f"an object of type {kind} needs a selection")
    for name in selection:
        if name not in FIELDS.get(kind, value.keys()):
            raise Unknown(f"Field '{name}' doesn't exist on type '{kind}'")
    return {name: _select(inner, value[name]) for name, inner in selection.items()}
