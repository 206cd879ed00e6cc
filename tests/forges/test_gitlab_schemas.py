"""The local GitLab sends what GitLab's client library declares, and refuses other requests."""

import json

import pytest

from tools import gitlab_schemas as packages
from verification.gitlab import gitlab_graphql, gitlab_rules, gitlab_server
from verification.gitlab.gitlab_schemas import CORRECTIONS, check, document, schemas
from verification.gitlab.gitlab_state import Refusal

#: The decision page names these versions too.
PINS = {"@gitbeaker/core": "43.8.0", "ts-json-schema-generator": "2.9.0"}


def test_the_versions_are_those_that_the_pages_name() -> None:
    found = json.loads((packages.PACKAGES / "package.json").read_text())["dependencies"]
    assert found == PINS
    assert f"@gitbeaker/core {PINS['@gitbeaker/core']}" in (gitlab_server.__doc__ or "")


def test_a_document_is_complete_and_has_only_declared_fields() -> None:
    made = document("reviewer", {"user": {"username": "alice"}, "state": "requested_changes"})
    assert {*made["user"]} == {"id", "name", "username", "state", "avatar_url", "web_url"}
    with pytest.raises(AssertionError, match="no reviewer of GitLab"):
        document("reviewer", {"state": "asked for changes"})
    with pytest.raises(KeyError, match=r"reviewer\.user has no field login"):
        document("reviewer", {"user": {"login": "alice"}})
    for field in made:
        with pytest.raises(AssertionError):
            check("reviewer", {name: made[name] for name in made if name != field})


def test_lines_of_a_comment_are_numbers() -> None:
    position = {"position_type": "text", "old_path": "a", "new_path": "a", "new_line": 2}
    note = document("discussion_note", {"position": position})
    assert note["position"]["head_sha"] == ""
    with pytest.raises(AssertionError):
        document("discussion_note", {"position": {**position, "new_line": "2"}})


def test_each_correction_is_of_a_declared_document() -> None:
    for kind, fields in CORRECTIONS.items():
        for name, schema in fields.items():
            assert (name in schemas()[kind]["properties"]) == (schema is not None)


@pytest.mark.parametrize("kind", [each for each in schemas() if each.endswith("_event")])
def test_a_delivery_has_the_declared_shape(kind: str) -> None:
    made = document(kind, {})
    assert made["project"].keys() >= {"id", "path_with_namespace", "default_branch"}
    with pytest.raises(AssertionError):
        check(kind, {**made, "project": "acme/app"})


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("POST notes", {}, "body is missing"),
        ("POST notes", {"body": "x", "text": "y"}, "text is not an attribute"),
        ("POST merge_requests", {"source_branch": "b", "title": "t"}, "target_branch is missing"),
        ("PUT discussion", {"resolve": True}, "resolved is missing"),
        ("POST statuses", {"state": "failed", "description": 1}, "no create_status"),
    ],
)
def test_other_bodies_are_refused(name: str, body: dict[str, object], message: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        gitlab_rules.checked(name, body)
    assert refused.value.status == 400


def test_other_options_are_refused() -> None:
    gitlab_rules.check_query({"state": "opened", "page": "2"}, "list_issues")
    gitlab_rules.merge_options({"squash": "True", "sha": "a"}, {})
    for wrong in ({"states": "opened"}, {"state": "open"}):
        with pytest.raises(Refusal):
            gitlab_rules.check_query(wrong, "list_requests")
    for wrong in ({"sha1": "a"}, {"squash": "yes"}):
        with pytest.raises(Refusal):
            gitlab_rules.merge_options(wrong, {})


def test_an_unknown_field_of_graphql_is_refused() -> None:
    query = 'query { project(fullPath: "a") { mergeRequests { iid } } }'
    found = gitlab_graphql.execute(lambda _: None, {"query": query})
    assert "Cannot query field 'mergeRequests'" in found["errors"][0]["message"]
