"""A client for Notion's API: six calls, rate-limited, retried where a retry is safe.

A call that may have created something is not retried automatically: it raises `Uncertain`, and the
caller checks first whether the thing exists.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2

from detent.errors import DetentError, Misconfigured, Unavailable

VERSION = "2026-03-11"
#: The minimum time between two requests: Notion allows three requests per second on average.
PACE_S = 0.35
TIMEOUT_S = 20.0
#: The maximum number of attempts of a call, and the first and the longest pause between two.
MAX_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
PAGE_SIZE = 100
#: Status codes that mean that the request was not carried out and may be repeated.
BUSY = (429, 529)
CONFLICT = 409

Json = dict[str, Any]


class Uncertain(DetentError):
    """The request failed without a response that says whether it was carried out."""

    default_code = "unavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="The next attempt first checks whether it was carried out.")


class Rejected(DetentError):
    """Notion refused the request; a retry would be refused again."""

    default_code = "refused"

    def __init__(self, status: int, notion_code: str, message: str) -> None:
        self.http_status, self.notion_code = status, notion_code
        super().__init__(
            f"Notion refused the request: {message}",
            hint="See Notion's message; detent's log names the page.",
            details={"notion_code": notion_code},
        )

    @property
    def gone(self) -> bool:
        """Whether the page is deleted, not shared with the integration, or in the trash."""
        return self.http_status == 404 or "archived" in str(self)


class Notion:
    """A connection with one token. Tests replace `sleep` and `clock`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}", "Notion-Version": VERSION}
        self._http = httpx2.Client(
            base_url=url, headers=headers, timeout=TIMEOUT_S, transport=transport
        )
        self._sleep, self._clock = sleep, clock
        self._next_s = float("-inf")

    def close(self) -> None:
        self._http.close()

    # -- calls -----------------------------------------------------------------------------

    def children(self, block_id: str) -> Iterator[Json]:
        """The blocks of a page."""
        yield from self._pages("GET", f"/v1/blocks/{block_id}/children", {})

    def database(self, database_id: str) -> Json:
        return self._call("GET", f"/v1/databases/{database_id}")

    def create_database(self, page_id: str, title: str, properties: Json) -> Json:
        body = {
            "parent": {"type": "page_id", "page_id": page_id},
            "title": [{"type": "text", "text": {"content": title}}],
            "initial_data_source": {"properties": properties},
        }
        return self._call("POST", "/v1/databases", body, once=True)

    def query(self, source_id: str, wanted: Json) -> Iterator[Json]:
        """The pages of a data source that match a filter."""
        yield from self._pages("POST", f"/v1/data_sources/{source_id}/query", {"filter": wanted})

    def create_page(self, source_id: str, properties: Json, children: list[Json]) -> Json:
        parent = {"type": "data_source_id", "data_source_id": source_id}
        body = {"parent": parent, "properties": properties, "children": children}
        return self._call("POST", "/v1/pages", body, once=True)

    def update_page(self, page_id: str, changes: Json) -> Json:
        """Change the properties of a page, or move it to the trash."""
        return self._call("PATCH", f"/v1/pages/{page_id}", changes)

    # -- requests --------------------------------------------------------------------------

    def _pages(self, method: str, path: str, given: Json) -> Iterator[Json]:
        cursor: Json = {}
        while True:
            wanted = {**given, "page_size": PAGE_SIZE, **cursor}
            body, query = (None, wanted) if method == "GET" else (wanted, None)
            found = self._call(method, path, body, query)
            yield from found["results"]
            if not found["has_more"]:
                return
            cursor = {"start_cursor": found["next_cursor"]}

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, Any] | None = None,
        *,
        once: bool = False,
    ) -> Json:
        """The response document; `once` for a request that must not be repeated after an error."""
        for attempt in range(MAX_TRIES):
            response = self._send(method, path, body, query)
            if response is not None and _final(response):
                return _read(response)
            if once and not _busy(response):
                raise Uncertain(f"{method} {path}: {_status_text(response)}")
            if attempt < MAX_TRIES - 1:
                self._sleep(_pause_s(response, attempt))
        raise Unavailable(f"Notion: {method} {path}: {_status_text(response)}", retry_after_s=60)

    def _send(
        self, method: str, path: str, body: Json | None, query: Mapping[str, Any] | None
    ) -> httpx2.Response | None:
        wait_s = self._next_s - self._clock()
        if wait_s > 0:
            self._sleep(wait_s)
        self._next_s = self._clock() + PACE_S
        try:
            return self._http.request(method, path, json=body, params=query)
        except httpx2.HTTPError:
            return None


def _final(response: httpx2.Response) -> bool:
    """Whether a retry would give the same response."""
    return response.status_code < 500 and response.status_code not in (*BUSY, CONFLICT)


def _busy(response: httpx2.Response | None) -> bool:
    """Whether the response says that the request was not carried out."""
    return response is not None and response.status_code in (*BUSY, CONFLICT)


def _pause_s(response: httpx2.Response | None, attempt: int) -> float:
    """The pause that the server requires, or else twice the previous pause."""
    own = FIRST_PAUSE_S * 2**attempt
    required = response.headers.get("retry-after", "") if response is not None else ""
    wanted = float(required) if required.isascii() and required.isdigit() else own
    return min(LONGEST_PAUSE_S, wanted)


def _read(response: httpx2.Response) -> Json:
    try:
        document: Json = response.json()
    except ValueError:
        document = {}
    if response.is_success and document:
        return document
    message = str(document.get("message") or response.status_code)
    if response.status_code in (401, 403):
        raise Misconfigured(
            f"Notion does not accept the token: {message}",
            setting="notion.token",
            hint="Check notion.token, and share the page of notion.parent with the integration.",
        )
    raise Rejected(response.status_code, str(document.get("code", "")), message)


def _status_text(response: httpx2.Response | None) -> str:
    return "no response" if response is None else f"status {response.status_code}"
