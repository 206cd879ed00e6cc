"""What both clients share: requests, retries, the end of a job, and the messages of the feed.

It decides and parses; it sends nothing and waits for nothing. It reads the clock and the
environment, and generates idempotency keys.
"""

import json
import os
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from detent import api_version, errors
from detent.environment_token import TOKEN_VARIABLE, URL_VARIABLE, token_for, url_from
from detent.http_requests import Route, error_from, request_for
from detent.http_routes import ROUTES
from detent.trace_propagation import outgoing_headers

TIMEOUT_S = 30.0
#: The feed sends its cursor every 15 seconds; a connection that is silent for this long is dead.
MAX_SILENCE_S = 60.0
#: Operations that create nothing twice under one idempotency key.
KEYED = frozenset({"add", "submit_task", "submit_job"})
#: Methods that may be sent again after a lost response.
REPEATABLE = ("GET", "PUT", "PATCH", "DELETE")
MAX_PAUSE_S = 30.0
MIN_POLL_S, MAX_POLL_S = 0.02, 0.5
ENDED = ("completed", "failed", "cancelled")

Json = dict[str, Any]


class Address:
    """The URL and the token of the gateway: as given, else from the environment.

    If the environment names an address, its token is used for that address only.
    """

    def __init__(
        self, url: str | None, token: str | None, retries: int, ca_file: str | None = None
    ) -> None:
        self.url = (url or url_from(os.environ)).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise errors.Misconfigured(
                f"The gateway's address must begin with http:// or https://, not {self.url!r}.",
                setting="url",
                hint="Give the address that `detent up` prints, or set DETENT_URL.",
            )
        self.retries = retries
        found = token or token_for(self.url, os.environ)
        if not found:
            raise errors.Misconfigured(
                f"The client has no token for {self.url}.",
                setting=TOKEN_VARIABLE,
                hint=f"Pass `token`, or set {TOKEN_VARIABLE} with this address in "
                f"{URL_VARIABLE}; `detent tokens create` creates a token.",
            )
        self.options: Json = {
            "base_url": self.url,
            "headers": {
                "Authorization": f"Bearer {found}",
                api_version.HEADER: api_version.SUPPORTED,
            },
        }
        if ca_file is not None:
            self.options["verify"] = ssl.create_default_context(cafile=ca_file)

    def check_version(self, headers: Mapping[str, str]) -> None:
        """Refuse a gateway that has no version of the API in common with this client."""
        supported = headers.get(api_version.HEADER)
        if supported is not None:
            api_version.check_gateway(supported, self.url)

    def request(self, operation: str, arguments: Mapping[str, Any]) -> "RetriedRequest":
        return RetriedRequest(self.url, operation, arguments, self.retries)


class RetriedRequest:
    """The request of one operation, and whether it is sent again after a failure."""

    def __init__(
        self, url: str, operation: str, arguments: Mapping[str, Any], retries: int
    ) -> None:
        self.url = url
        self._left = retries
        self._failures = 0
        if operation not in ROUTES:
            raise errors.NotFound(f"There is no operation {operation!r}.", known=sorted(ROUTES))
        route = Route(*ROUTES[operation])
        given = dict(arguments)
        if operation in KEYED and given.get("idempotency_key") is None:
            # With a key, a request that is sent again after a lost response creates nothing twice.
            given["idempotency_key"] = secrets.token_urlsafe(16)
        self._repeatable = route.method in REPEATABLE or operation in KEYED
        try:
            made = request_for(route, given)
        except KeyError as error:
            name = str(error.args[0])
            raise errors.Invalid(f"{name} is missing.", field=name) from None
        self.request: dict[str, Any] = {
            "method": made.method,
            "url": made.target,
            "headers": {**made.headers, **outgoing_headers()},
            "content": made.body,
        }

    def result(self, content: bytes) -> Any:
        """The result in the body of a response."""
        return json.loads(content) if content else None

    def refused(self, status: int, content: bytes) -> float:
        """The pause before the next try, after an error response; raises if there is none."""
        error = error_from(status, content)
        if not isinstance(error, errors.Unavailable) or not self._again():
            raise error
        return min(float(error.retry_after_s), MAX_PAUSE_S)

    def unanswered(self, error: Exception) -> float:
        """The pause before the next try, after no response; raises if there is none."""
        if not self._again():
            raise errors.Unavailable(
                f"{self.url} does not answer: {error}", retry_after_s=1
            ) from None
        return backoff_s(self._failures)

    def _again(self) -> bool:
        self._left -= 1
        self._failures += 1
        return self._repeatable and self._left >= 0


def backoff_s(failures: int) -> float:
    """The pause after this many failures: exponential, with jitter."""
    return float(min(0.1 * 2**failures, MAX_PAUSE_S) * (0.5 + secrets.randbelow(500) / 1_000))


def submission(intent: str, payload: Any, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The operation that submits this, with its arguments."""
    arguments = {"intent": intent, "payload": payload, **options}
    if "key" in arguments:
        arguments["idempotency_key"] = arguments.pop("key")
    if arguments.get("lifecycle") is None:
        arguments.pop("lifecycle", None)
        return "submit_job", arguments
    return "submit_task", {**arguments, "run": True}


def pauses(what: str, timeout_s: float | None) -> Iterator[float]:
    """The pauses between two polls, short at first. TimeoutError follows the last one."""
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = MIN_POLL_S
    while True:
        left_s = pause_s if until_s is None else until_s - time.monotonic()
        yield max(0.0, min(pause_s, left_s))
        if until_s is not None and left_s <= 0:
            raise TimeoutError(f"{what} has not ended after {timeout_s} s")
        pause_s = min(pause_s * 1.5, MAX_POLL_S)


def ended(job: Mapping[str, Any]) -> bool:
    return job["state"] in ENDED


def result_of(job: Mapping[str, Any]) -> Any:
    if job["state"] != "completed":
        reason = job["error"] or job["cancel_reason"]
        raise errors.JobFailed(job["id"], job["state"], job["error_class"], reason)
    return job["result"]


# ---- the feed --------------------------------------------------------------------------------

#: Messages about the connection, which `follow` does not return.
CONNECTION_MESSAGES = ("hello", "cursor", "bye", "resync")


class Stream:
    """Parses server-sent events into messages, and keeps the cursor that a new connection resumes.

    The messages of a position are held until its id has arrived, which the last of them has: a
    connection that is cut in between repeats none of them.
    """

    def __init__(
        self, url: str, cursor: int | None, query: Mapping[str, Any], retries: int
    ) -> None:
        self.url = url
        self.cursor = cursor
        self.over = False
        self._query = {name: value for name, value in query.items() if value is not None}
        self._retries = retries
        self._failures = 0
        self._waiting: list[dict[str, Any]] = []
        self._id: int | None = None

    @property
    def request(self) -> dict[str, Any]:
        self._waiting, self._id = [], None
        query = dict(self._query)
        if self.cursor is not None:
            query["cursor"] = self.cursor
        words = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in query.items()
        }
        return {"url": f"/api/events?{urlencode(words)}"}

    def read(self, line: str) -> Iterator[dict[str, Any]]:
        """The messages that this line completes."""
        if line.startswith("id: "):
            self._id = int(line[4:])
        elif line.startswith("data: "):
            message = json.loads(line[6:])
            self._failures = 0
            if message["type"] not in CONNECTION_MESSAGES:
                self._waiting.append(message)
            else:
                # With follow=False the stream ends at the end of the log, unless it was cut.
                until_end = self._query.get("follow") is False
                self.over = until_end and message["type"] not in ("bye", "resync")
        elif not line and self._id is not None:
            cursor, self._id = self._id, None
            whole, self._waiting = self._waiting, []
            yield from whole
            self.cursor = cursor

    def refused(self, status: int, content: bytes) -> None:
        """Count an error response; raises the error if another try would get it again."""
        error = error_from(status, content)
        if not isinstance(error, errors.Unavailable | errors.TooMany):
            raise error
        self._again(error)

    def cut(self, error: Exception) -> None:
        self.over = False  # the response was incomplete
        self._again(errors.Unavailable(f"{self.url} does not answer: {error}", retry_after_s=1))

    def pause_s(self) -> float:
        return backoff_s(self._failures)

    def _again(self, error: errors.DetentError) -> None:
        self._failures += 1
        if self._failures > self._retries:
            raise error
