"""A Notion for tests: the part of its API that detent uses, in memory, and as strict as the real.

`handle` answers one request; `transport` plugs it into a client, `serving` puts it on a socket.
What the real one refuses is refused here, and it is as slow to forgive a fast client.
"""

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import httpx2

from verification.notion import notion_rules as rules
from verification.notion.notion_rules import Json, Refusal, invalid, known_keys, not_found

VERSION = "2026-03-11"
#: Requests in a second before the server says that it is too much.
MAX_PER_SECOND = 3


class Reply(NamedTuple):
    status: int
    document: Json
    headers: Mapping[str, str] = {}


@dataclass
class Database:
    id: str
    parent: str
    title: str
    source_id: str
    schema: dict[str, str]


@dataclass
class Page:
    id: str
    source_id: str
    properties: Json
    children: list[Json]
    in_trash: bool = False
    edits: int = 0


@dataclass
class NotionServer:
    """One workspace with one page that is shared, `parent`."""

    token: str = "ntn_secret"
    parent: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Callable[[], float] = time.monotonic
    databases: dict[str, Database] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    #: What was asked, as `METHOD /path`, and what is answered next instead of the truth.
    asked: list[str] = field(default_factory=list)
    answers: deque[Reply] = field(default_factory=deque)
    _times: deque[float] = field(default_factory=deque)

    # -- looking ---------------------------------------------------------------------------

    def rows(self, title: str) -> list[Json]:
        """The properties of the live pages of a database, by its title."""
        sources = {each.source_id for each in self.databases.values() if each.title == title}
        live = [page for page in self.pages.values() if not page.in_trash]
        return [page.properties for page in live if page.source_id in sources]

    # -- serving ---------------------------------------------------------------------------

    def transport(self) -> httpx2.MockTransport:
        def answer(request: httpx2.Request) -> httpx2.Response:
            target = request.url.raw_path.decode()
            reply = self.handle(request.method, target, request.headers, request.read())
            return httpx2.Response(reply.status, headers=dict(reply.headers), json=reply.document)

        return httpx2.MockTransport(answer)

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        path = urlsplit(target).path
        self.asked.append(f"{method} {path}")
        if self.answers:
            return self.answers.popleft()
        try:
            self._admit(headers)
            return Reply(200, self._route(method, target, _decoded(method, headers, body)))
        except Refusal as refusal:
            hint = {"Retry-After": "1"} if refusal.status == 429 else {}
            return Reply(refusal.status, refusal.document, hint)

    def _admit(self, headers: Mapping[str, str]) -> None:
        if headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(401, "unauthorized", "API token is invalid.")
        version = headers.get("notion-version")
        if version is None:
            raise Refusal(400, "missing_version", "Notion-Version header should be defined.")
        if version != VERSION:
            raise invalid(f"Notion-Version header should be {VERSION}, instead was {version}")
        now = self.clock()
        while self._times and self._times[0] <= now - 1:
            self._times.popleft()
        if len(self._times) >= MAX_PER_SECOND:
            raise Refusal(429, "rate_limited", "You have been rate limited.")
        self._times.append(now)

    def _route(self, method: str, target: str, body: Json) -> Json:
        parts = urlsplit(target)
        match method, *parts.path.strip("/").split("/"):
            case "GET", "v1", "blocks", ident, "children":
                return self._children(ident, dict(parse_qsl(parts.query)))
            case "POST", "v1", "databases":
                return self._create_database(body)
            case "GET", "v1", "databases", ident:
                return self._shown_database(self._database(ident))
            case "POST", "v1", "data_sources", ident, "query":
                return self._query(ident, body)
            case "POST", "v1", "pages":
                return self._create_page(body)
            case "PATCH", "v1", "pages", ident:
                return self._update_page(ident, body)
        raise Refusal(400, "invalid_request_url", "Invalid request URL.")

    # -- databases -------------------------------------------------------------------------

    def _children(self, ident: str, query: Mapping[str, str]) -> Json:
        if ident != self.parent:
            raise not_found("block", ident)
        known_keys("query", dict(query), ("page_size", "start_cursor"))
        below = [
            {
                "object": "block",
                "id": each.id,
                "type": "child_database",
                "child_database": {"title": each.title},
                "in_trash": False,
            }
            for each in self.databases.values()
            if each.parent == ident
        ]
        return _page(below, query)

    def _database(self, ident: str) -> Database:
        if ident not in self.databases:
            raise not_found("database", ident)
        return self.databases[ident]

    def _create_database(self, body: Json) -> Json:
        known_keys("body", body, ("parent", "title", "initial_data_source", "is_inline", "icon"))
        parent = known_keys("body.parent", body.get("parent"), ("type", "page_id"))
        if parent.get("type") != "page_id":
            raise invalid('body failed validation: body.parent.type should be `"page_id"`')
        if parent.get("page_id") != self.parent:
            raise not_found("page", str(parent.get("page_id")))
        title = rules.rich_text("body.title", body.get("title"))
        source = known_keys(
            "body.initial_data_source", body.get("initial_data_source"), ("properties",)
        )
        schema = rules.schema_from(source.get("properties"))
        made = Database(str(uuid.uuid4()), self.parent, title, str(uuid.uuid4()), schema)
        self.databases[made.id] = made
        return self._shown_database(made)

    def _shown_database(self, database: Database) -> Json:
        return {
            "object": "database",
            "id": database.id,
            "title": [{"type": "text", "plain_text": database.title}],
            "data_sources": [{"id": database.source_id, "name": database.title}],
            "in_trash": False,
        }

    def _schema(self, source_id: str) -> dict[str, str]:
        for database in self.databases.values():
            if database.source_id == source_id:
                return database.schema
        raise not_found("data source", source_id)

    # -- pages -----------------------------------------------------------------------------

    def _query(self, source_id: str, body: Json) -> Json:
        schema = self._schema(source_id)
        known_keys("body", body, ("filter", "sorts", "page_size", "start_cursor", "in_trash"))
        found = [
            page
            for page in self.pages.values()
            if page.source_id == source_id and not page.in_trash
        ]
        if "filter" in body:
            name, wanted = _equals(schema, body["filter"])
            found = [page for page in found if page.properties.get(name) == wanted]
        return _page([self._shown_page(page) for page in found], body)

    def _create_page(self, body: Json) -> Json:
        known_keys("body", body, ("parent", "properties", "children", "icon", "cover"))
        parent = known_keys("body.parent", body.get("parent"), ("type", "data_source_id"))
        if parent.get("type") != "data_source_id":
            raise invalid('body failed validation: body.parent.type should be `"data_source_id"`')
        source_id = str(parent.get("data_source_id"))
        values = rules.property_values(self._schema(source_id), body.get("properties"))
        children = rules.blocks(body.get("children", []))
        made = Page(str(uuid.uuid4()), source_id, values, children)
        self.pages[made.id] = made
        return self._shown_page(made)

    def _update_page(self, ident: str, body: Json) -> Json:
        if ident not in self.pages:
            raise not_found("page", ident)
        page = self.pages[ident]
        known_keys("body", body, ("properties", "in_trash", "icon", "cover", "is_locked"))
        trash = body.get("in_trash", page.in_trash)
        if not isinstance(trash, bool):
            raise invalid("body failed validation: body.in_trash should be a boolean")
        if page.in_trash and trash:
            raise invalid(
                "Can't edit block that is archived. You must unarchive the block before editing."
            )
        values = rules.property_values(self._schema(page.source_id), body.get("properties", {}))
        page.properties = {**page.properties, **values}
        page.in_trash = trash
        page.edits += 1
        return self._shown_page(page)

    def _shown_page(self, page: Page) -> Json:
        parent = {"type": "data_source_id", "data_source_id": page.source_id}
        return {"object": "page", "id": page.id, "parent": parent, "in_trash": page.in_trash}


def _decoded(method: str, headers: Mapping[str, str], body: bytes) -> Json:
    if method == "GET":
        if body:
            raise invalid("body failed validation: body should be not present")
        return {}
    if not headers.get("content-type", "").startswith("application/json"):
        raise Refusal(400, "invalid_request", "Content-Type should be application/json.")
    if len(body) > rules.MAX_BYTES:
        raise Refusal(413, "validation_error", "Request body too large.")
    try:
        found: Json = json.loads(body)
    except ValueError:
        raise Refusal(400, "invalid_json", "Error parsing JSON body.") from None
    return found


def _equals(schema: Mapping[str, str], given: Any) -> tuple[str, Any]:
    """The property and the value that a filter asks for."""
    wanted = known_keys("body.filter", given, ("property", "rich_text", "title", "select"))
    name = str(wanted.get("property"))
    kind = schema.get(name)
    if kind is None:
        raise invalid(f"Could not find property with name or id: {name}")
    if kind not in wanted:
        raise invalid(f"database property {kind} does not match filter")
    condition = known_keys(f"body.filter.{kind}", wanted[kind], ("equals",))
    return name, condition.get("equals")


def _page(found: list[Json], asked: Mapping[str, Any]) -> Json:
    """One page of a list, from where the last one ended."""
    size = rules.page_size(asked.get("page_size"))
    ids = [each["id"] for each in found]
    cursor = asked.get("start_cursor")
    if cursor is not None and cursor not in ids:
        raise invalid("start_cursor provided is invalid")
    begin = 0 if cursor is None else ids.index(cursor)
    more = len(found) > begin + size
    return {
        "object": "list",
        "results": found[begin : begin + size],
        "has_more": more,
        "next_cursor": ids[begin + size] if more else None,
    }


# ---- on a socket -----------------------------------------------------------------------------


@contextmanager
def serving(notion: NotionServer) -> Iterator[str]:
    """The server on a port of this machine; its address."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = notion.handle(self.command, self.path, headers, body)
            content = json.dumps(reply.document).encode()
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": len(content)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
