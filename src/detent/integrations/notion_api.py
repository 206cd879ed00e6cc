"""Notion's API, as far as it is used: six calls, slowly enough, and again where that is safe.

A call that may have made something is never repeated blindly: `Uncertain` says that its maker has
to look first.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2

from detent.errors import DetentError, Misconfigured, Unavailable

VERSION = "2026-03-11"
#: Three requests a second on average are allowed.
PACE_S = 0.35
TIMEOUT_S = 20.0
#: How often a call is tried, how long is waited in between, and the longest that is waited for it.
MAX_TRIES = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
PAGE_SIZE = 100
#: Answers that say: not now. Nothing was done.
BUSY = (429, 529)
CONFLICT = 409

Json = dict[str, Any]


class Uncertain(DetentError):
    """No answer came, or one that does not say whether the thing was made."""

    default_code = "unavailable"


class Rejected(DetentError):
    """Notion has understood and says no, and would again."""

    default_code = "refused"

    def __init__(self, status: int, notion_code: str, message: str) -> None:
        self.http_status, self.notion_code = status, notion_code
        super().__init__(
            f"Notion refused: {message}",
            hint="See its message; detent's own log has the page.",
            details={"notion_code": notion_code},
        )

    @property
    def gone(self) -> bool:
        """The page is deleted, out of reach, or in the trash."""
        return self.http_status == 404 or "archived" in str(self)


class Notion:
    """A connection with one token. `sleep` and `clock` are the test's."""

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

    # -- the six calls ---------------------------------------------------------------------

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
        """New properties, or into the trash."""
        return self._call("PATCH", f"/v1/pages/{page_id}", changes)

    # -- how they are made -----------------------------------------------------------------

    def _pages(self, method: str, path: str, given: Json) -> Iterator[Json]:
        cursor: Json = {}
        while True:
            asked = {**given, "page_size": PAGE_SIZE, **cursor}
            body, query = (None, asked) if method == "GET" else (asked, None)
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
        """The answer; `once` for what must not be asked again without looking."""
        for attempt in range(MAX_TRIES):
            answer = self._send(method, path, body, query)
            if answer is not None and _final(answer):
                return _read(answer)
            if once and not _busy(answer):
                raise Uncertain(f"{method} {path}: {_shown(answer)}")
            if attempt < MAX_TRIES - 1:
                self._sleep(_pause_s(answer, attempt))
        raise Unavailable(f"Notion: {method} {path}: {_shown(answer)}", retry_after_s=60)

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


def _final(answer: httpx2.Response) -> bool:
    """Whether asking again would change nothing."""
    return answer.status_code < 500 and answer.status_code not in (*BUSY, CONFLICT)


def _busy(answer: httpx2.Response | None) -> bool:
    """Whether it is sure that nothing was done."""
    return answer is not None and answer.status_code in (*BUSY, CONFLICT)


def _pause_s(answer: httpx2.Response | None, attempt: int) -> float:
    """What the server asks for, else twice as long as the last time."""
    own = FIRST_PAUSE_S * 2**attempt
    asked = answer.headers.get("retry-after", "") if answer is not None else ""
    wanted = float(asked) if asked.isascii() and asked.isdigit() else own
    return min(LONGEST_PAUSE_S, wanted)


def _read(answer: httpx2.Response) -> Json:
    try:
        document: Json = answer.json()
    except ValueError:
        document = {}
    if answer.is_success and document:
        return document
    message = str(document.get("message") or answer.status_code)
    if answer.status_code in (401, 403):
        raise Misconfigured(
            f"Notion does not let detent in: {message}",
            setting="notion.token",
            hint="Check notion.token, and share the page of notion.parent with the integration.",
        )
    raise Rejected(answer.status_code, str(document.get("code", "")), message)


def _shown(answer: httpx2.Response | None) -> str:
    return "no answer" if answer is None else f"it answered {answer.status_code}"
