"""What both clients of a gateway do between two requests: when to ask again, and what it meant.

Decides and parses; sends nothing, waits for nothing. Reads clock and environment, makes keys.
"""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from detent import errors
from detent.http_requests import Route, error_from, request_for
from detent.http_routes import ROUTES

TIMEOUT_S = 30.0
#: The feed gives a sign of life every quarter of a minute; silence for longer is a dead line.
QUIET_S = 60.0
#: Operations that never make a second thing under one key.
KEYED = frozenset({"add", "submit_task", "submit_job"})
#: Methods that may be sent again although the answer was lost.
REPEATABLE = ("GET", "PUT", "PATCH", "DELETE")
LONGEST_PAUSE_S = 30.0
FIRST_LOOK_S, LAST_LOOK_S = 0.02, 0.5
ENDED = ("completed", "failed", "cancelled")

Json = dict[str, Any]


class Address:
    """Where the gateway is and what opens it: as given, else from the environment."""

    def __init__(self, url: str | None, token: str | None, retries: int) -> None:
        self.url = (url or os.environ.get("DETENT_URL") or "http://127.0.0.1:5680").rstrip("/")
        self.retries = retries
        found = token or os.environ.get("DETENT_TOKEN")
        if not found:
            raise errors.Misconfigured(
                "No token for the gateway is known.",
                setting="DETENT_TOKEN",
                hint="Give one, or set DETENT_TOKEN; `detent tokens create` makes them.",
            )
        self.options: Json = {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {found}"},
        }

    def asking(self, operation: str, arguments: Mapping[str, Any]) -> "Asking":
        return Asking(self.url, operation, arguments, self.retries)


class Asking:
    """One operation, asked for until it is answered or there is no point any more."""

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
            # Made here, so that an answer that was lost on the way does not make two of it.
            given["idempotency_key"] = secrets.token_urlsafe(16)
        self._repeatable = route.method in REPEATABLE or operation in KEYED
        try:
            asked = request_for(route, given)
        except KeyError as error:
            name = str(error.args[0])
            raise errors.Invalid(f"{name} is missing.", field=name) from None
        self.request: dict[str, Any] = {
            "method": asked.method,
            "url": asked.target,
            "headers": asked.headers,
            "content": asked.body,
        }

    def answer(self, content: bytes) -> Any:
        return json.loads(content) if content else None

    def refused(self, status: int, content: bytes) -> float:
        """How long to wait before asking again; raises what is not to be asked again."""
        error = error_from(status, content)
        if not isinstance(error, errors.Unavailable) or not self._again():
            raise error
        return min(float(error.retry_after_s), LONGEST_PAUSE_S)

    def unanswered(self, error: Exception) -> float:
        """The same after no answer came at all."""
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
    """Longer each time, and not the same for everybody."""
    return float(min(0.1 * 2**failures, LONGEST_PAUSE_S) * (0.5 + secrets.randbelow(500) / 1_000))


def submission(intent: str, payload: Any, ways: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The operation that queues this, with its arguments."""
    arguments = {"intent": intent, "payload": payload, **ways}
    if "key" in arguments:
        arguments["idempotency_key"] = arguments.pop("key")
    if arguments.get("lifecycle") is None:
        arguments.pop("lifecycle", None)
        return "submit_job", arguments
    return "submit_task", {**arguments, "run": True}


def pauses(what: str, timeout_s: float | None) -> Iterator[float]:
    """How long to wait between looks: short at first. The last one is followed by TimeoutError."""
    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = FIRST_LOOK_S
    while True:
        left_s = pause_s if until_s is None else until_s - time.monotonic()
        yield max(0.0, min(pause_s, left_s))
        if until_s is not None and left_s <= 0:
            raise TimeoutError(f"{what} has not ended after {timeout_s} s")
        pause_s = min(pause_s * 1.5, LAST_LOOK_S)


def ended(job: Mapping[str, Any]) -> bool:
    return job["state"] in ENDED


def result_of(job: Mapping[str, Any]) -> Any:
    if job["state"] != "completed":
        reason = job["error"] or job["cancel_reason"]
        raise errors.JobFailed(job["id"], job["state"], job["error_class"], reason)
    return job["result"]


# ---- the feed --------------------------------------------------------------------------------

#: Messages of the connection itself; whoever follows does not see them.
OF_THE_LINE = ("hello", "cursor", "bye", "resync")


class Stream:
    """Server-sent events as messages, with the cursor from which a new connection goes on.

    The messages of a position are kept together until its number has come, which is with the last
    of them: a connection that is cut in between repeats none of them.
    """

    def __init__(self, url: str, cursor: int | None, wish: Mapping[str, Any], retries: int) -> None:
        self.url = url
        self.cursor = cursor
        self.over = False
        self._wish = {name: value for name, value in wish.items() if value is not None}
        self._retries = retries
        self._failures = 0
        self._waiting: list[dict[str, Any]] = []
        self._id: int | None = None

    @property
    def request(self) -> dict[str, Any]:
        self._waiting, self._id = [], None
        query = dict(self._wish)
        if self.cursor is not None:
            query["cursor"] = self.cursor
        words = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in query.items()
        }
        return {"url": f"/api/events?{urlencode(words)}"}

    def read(self, line: str) -> Iterator[dict[str, Any]]:
        """The messages that are whole with this line."""
        if line.startswith("id: "):
            self._id = int(line[4:])
        elif line.startswith("data: "):
            message = json.loads(line[6:])
            self._failures = 0
            if message["type"] not in OF_THE_LINE:
                self._waiting.append(message)
            else:
                # Without following, the end of the answer is the end; not if it was ended early.
                asked_for_all = self._wish.get("follow") is False
                self.over = asked_for_all and message["type"] not in ("bye", "resync")
        elif not line and self._id is not None:
            cursor, self._id = self._id, None
            whole, self._waiting = self._waiting, []
            yield from whole
            self.cursor = cursor

    def refused(self, status: int, content: bytes) -> None:
        """Raises what will be the same next time."""
        error = error_from(status, content)
        if not isinstance(error, errors.Unavailable | errors.TooMany):
            raise error
        self._again(error)

    def cut(self, error: Exception) -> None:
        self.over = False  # what was asked for has not come whole
        self._again(errors.Unavailable(f"{self.url} does not answer: {error}", retry_after_s=1))

    def pause_s(self) -> float:
        return backoff_s(self._failures)

    def _again(self, error: errors.DetentError) -> None:
        self._failures += 1
        if self._failures > self._retries:
            raise error
