"""The Notion server of the tests refuses what the real Notion refuses."""

import json
from typing import Any

import pytest

from verification.notion.notion_server import MAX_PER_SECOND, NotionServer, Reply

GOOD = {
    "authorization": "Bearer ntn_secret",
    "notion_version": "2026-03-11",
    "content_type": "application/json",
}
SCHEMA: dict[str, Any] = {
    "Name": {"title": {}},
    "ID": {"rich_text": {}},
    "State": {"select": {}},
    "Cost": {"number": {}},
    "At": {"date": {}},
}


class NotionRequests:
    """A plain client, with a clock that never limits the rate of requests."""

    def __init__(self) -> None:
        self.now = 0.0
        self.server = NotionServer(clock=lambda: self.now)
        self.database: dict[str, Any] = {}
        self.source = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> Reply:
        self.now += 1
        given = {**GOOD, **headers}
        kept = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
        raw = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        return self.server.handle(method, path, kept, raw)

    def page(self, **properties: Any) -> dict[str, Any]:
        parent = {"type": "data_source_id", "data_source_id": self.source}
        return {"parent": parent, "properties": properties}


@pytest.fixture
def notion() -> NotionRequests:
    made = NotionRequests()
    body = {
        "parent": {"type": "page_id", "page_id": made.server.parent},
        "title": [{"type": "text", "text": {"content": "table"}}],
        "initial_data_source": {"properties": SCHEMA},
    }
    made.database = made.ask("POST", "/v1/databases", body).document
    made.source = made.database["data_sources"][0]["id"]
    return made


def text(content: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": {"content": content}}]


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.document["code"]


def test_valid_requests_are_accepted(notion: NotionRequests) -> None:
    values = {
        "Name": {"title": text("one")},
        "ID": {"rich_text": text("x")},
        "State": {"select": {"name": "done"}},
        "Cost": {"number": 1.5},
        "At": {"date": {"start": "2026-11-16T12:00:00.000Z"}},
    }
    made = notion.ask("POST", "/v1/pages", notion.page(**values))
    assert made.status == 200
    wanted = {"filter": {"property": "ID", "rich_text": {"equals": "x"}}}
    found = notion.ask("POST", f"/v1/data_sources/{notion.source}/query", wanted).document
    assert [each["id"] for each in found["results"]] == [made.document["id"]]
    path = f"/v1/pages/{made.document['id']}"
    assert notion.ask("PATCH", path, {"properties": {"State": {"select": None}}}).status == 200
    assert notion.server.rows("table")[0]["State"] is None
    assert notion.ask("GET", f"/v1/databases/{notion.database['id']}").document == notion.database


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"authorization": "Bearer wrong"}, (401, "unauthorized")),
        ({"authorization": None}, (401, "unauthorized")),
        ({"notion_version": None}, (400, "missing_version")),
        ({"notion_version": "2022-06-28"}, (400, "validation_error")),
        ({"content_type": "text/plain"}, (400, "invalid_request")),
    ],
)
def test_headers(
    notion: NotionRequests, headers: dict[str, str | None], expected: tuple[int, str]
) -> None:
    reply = notion.ask("POST", "/v1/pages", notion.page(Name={"title": []}), **headers)
    assert refused(reply) == expected


def test_bodies(notion: NotionRequests) -> None:
    assert refused(notion.ask("POST", "/v1/pages", b"{")) == (400, "invalid_json")
    large = notion.page(Name={"title": text("x" * 500_000)})
    assert refused(notion.ask("POST", "/v1/pages", large)) == (413, "validation_error")
    assert refused(notion.ask("GET", "/v1/databases/x", {})) == (400, "validation_error")
    assert refused(notion.ask("DELETE", "/v1/pages/x", {})) == (400, "invalid_request_url")


@pytest.mark.parametrize(
    "properties",
    [
        {"Nothing": {"rich_text": []}},
        {"State": {"rich_text": text("done")}},
        {"State": {"select": {"name": "a,b"}}},
        {"State": {"select": {"name": ""}}},
        {"State": {"select": {"name": "x" * 101}}},
        {"State": {"select": {"name": "a"}, "number": 1}},
        {"Cost": {"number": "1"}},
        {"Cost": {"number": True}},
        {"At": {"date": {"start": "yesterday"}}},
        {"ID": {"rich_text": "x"}},
        {"ID": {"rich_text": text("x" * 2_001)}},
        {"ID": {"rich_text": text("x") * 101}},
        {"ID": {"rich_text": [{"type": "mention"}]}},
        {"ID": {"rich_text": [{"type": "text", "text": {"content": 1}}]}},
        {"ID": {"rich_text": [{"type": "text", "plain_text": "x"}]}},
        {"ID": "x"},
    ],
    ids=lambda each: str(each)[:40],
)
def test_invalid_values_are_refused(notion: NotionRequests, properties: dict[str, Any]) -> None:
    made = notion.ask("POST", "/v1/pages", notion.page(**properties))
    assert refused(made) == (400, "validation_error")
    assert notion.server.pages == {}


def test_content_of_a_page(notion: NotionRequests) -> None:
    code = {"object": "block", "type": "code", "code": {"rich_text": [], "language": "json"}}
    plain = {"type": "paragraph", "paragraph": {"rich_text": text("x")}}
    wrong: list[Any] = [
        [code] * 101,
        [{"type": "table"}],
        [{"type": "code", "code": {"rich_text": []}}],
        [{"type": "paragraph", "paragraph": {"rich_text": text("x" * 2_001)}}],
        {"type": "code"},
    ]
    for children in wrong:
        reply = notion.ask("POST", "/v1/pages", {**notion.page(), "children": children})
        assert refused(reply) == (400, "validation_error")
    right = notion.ask("POST", "/v1/pages", {**notion.page(), "children": [code, plain] * 50})
    assert right.status == 200


def test_parents_of_a_page(notion: NotionRequests) -> None:
    database = {"type": "database_id", "database_id": notion.database["id"]}
    for parent, code in (
        (database, (400, "validation_error")),
        ({"type": "page_id", "page_id": notion.server.parent}, (400, "validation_error")),
        ({"type": "data_source_id", "data_source_id": "none"}, (404, "object_not_found")),
    ):
        assert (
            refused(notion.ask("POST", "/v1/pages", {"parent": parent, "properties": {}})) == code
        )


def test_changing_a_page(notion: NotionRequests) -> None:
    made = notion.ask("POST", "/v1/pages", notion.page(Name={"title": text("x")}))
    path = f"/v1/pages/{made.document['id']}"
    assert refused(notion.ask("PATCH", path, {"archived": True})) == (400, "validation_error")
    assert refused(notion.ask("PATCH", path, {"in_trash": "yes"})) == (400, "validation_error")
    assert notion.ask("PATCH", path, {"in_trash": True}).status == 200
    again = notion.ask("PATCH", path, {"properties": {"Name": {"title": []}}})
    assert refused(again) == (400, "validation_error")
    assert "archived" in again.document["message"]
    assert notion.server.rows("table") == []
    assert notion.ask("PATCH", path, {"in_trash": False}).status == 200
    assert refused(notion.ask("PATCH", "/v1/pages/none", {})) == (404, "object_not_found")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"parent": {"type": "page_id", "page_id": "none"}}, (404, "object_not_found")),
        ({"parent": {"type": "workspace"}}, (400, "validation_error")),
        ({"properties": SCHEMA}, (400, "validation_error")),
        ({"initial_data_source": {"properties": {}}}, (400, "validation_error")),
        (
            {"initial_data_source": {"properties": {"ID": {"rich_text": {}}}}},
            (400, "validation_error"),
        ),
        (
            {"initial_data_source": {"properties": {**SCHEMA, "X": {"money": {}}}}},
            (400, "validation_error"),
        ),
    ],
    ids=[
        "unknown page",
        "workspace",
        "old place of properties",
        "none",
        "no title",
        "unknown type",
    ],
)
def test_invalid_databases_are_refused(
    notion: NotionRequests, change: dict[str, Any], code: tuple[int, str]
) -> None:
    body = {
        "parent": {"type": "page_id", "page_id": notion.server.parent},
        "title": text("another"),
        "initial_data_source": {"properties": SCHEMA},
    }
    assert refused(notion.ask("POST", "/v1/databases", {**body, **change})) == code
    assert len(notion.server.databases) == 1


def test_invalid_queries_are_refused(notion: NotionRequests) -> None:
    path = f"/v1/data_sources/{notion.source}/query"
    wrong: list[dict[str, Any]] = [
        {"filter": {"property": "Nothing", "rich_text": {"equals": "x"}}},
        {"filter": {"property": "ID", "select": {"equals": "x"}}},
        {"filter": {"property": "ID", "rich_text": {"like": "x"}}},
        {"page_size": 101},
        {"start_cursor": "none"},
        {"where": {}},
    ]
    for body in wrong:
        assert refused(notion.ask("POST", path, body)) == (400, "validation_error")
    gone = notion.ask("POST", "/v1/data_sources/none/query", {})
    assert refused(gone) == (404, "object_not_found")
    assert refused(notion.ask("GET", "/v1/blocks/none/children")) == (404, "object_not_found")


def test_long_lists_come_in_pages(notion: NotionRequests) -> None:
    for number in range(5):
        notion.ask("POST", "/v1/pages", notion.page(Name={"title": text(str(number))}))
    path = f"/v1/data_sources/{notion.source}/query"
    first = notion.ask("POST", path, {"page_size": 2}).document
    assert (len(first["results"]), first["has_more"]) == (2, True)
    rest = {"page_size": 100, "start_cursor": first["next_cursor"]}
    second = notion.ask("POST", path, rest).document
    assert (len(second["results"]), second["has_more"], second["next_cursor"]) == (3, False, None)


def test_a_fast_client_gets_retry_after(notion: NotionRequests) -> None:
    notion.now = 1_000
    codes = []
    for _ in range(MAX_PER_SECOND + 1):
        notion.now -= 1
        reply = notion.ask("GET", f"/v1/databases/{notion.database['id']}")
        codes.append(reply.status)
    assert codes == [200] * MAX_PER_SECOND + [429]
    assert reply.headers["Retry-After"] == "1"
    assert notion.ask("GET", f"/v1/databases/{notion.database['id']}").status == 200
