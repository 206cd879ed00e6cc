"""What a scripted model replies, request by request, in terms that are the same for all APIs."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Json = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """Ends the turn with a text."""

    text: str


@dataclass(frozen=True)
class Call:
    """Calls a tool of the agent."""

    tool: str
    given: Mapping[str, Any] | str


@dataclass(frozen=True)
class Refuse:
    """Answers every request with an HTTP error until the script advances."""

    status: int
    #: How long after the first refusal a rate limit ends; then, when that is in Unix seconds.
    reset_in_s: int | None = None
    reset_s: int | None = None

    @property
    def wait_s(self) -> int | None:
        """How long the client has to wait from now on; None without a rate limit."""
        return None if self.reset_s is None else max(1, round(self.reset_s - time.time()))


@dataclass(frozen=True)
class Malformed:
    """Begins a stream, then sends what is no event of the API, until the script advances."""


@dataclass(frozen=True)
class Stall:
    """Begins a stream and sends nothing more, until the client disconnects or it advances."""


Reply = Say | Call | Refuse | Malformed | Stall


@dataclass(frozen=True)
class Account:
    """What a request is sent with: a key, and the beginning of its path."""

    key: str
    path: str = ""


@dataclass(frozen=True)
class Step:
    """One request for which a reply is scripted, and texts that the request must contain."""

    reply: Reply
    sees: tuple[str, ...] = ()
    #: What the request must be sent with. The first request with the account of the next step
    #: ends a refusal.
    account: Account | None = None
    #: Begins a session: nothing of earlier requests has to be in this one.
    fresh: bool = False
    tokens_in: int = 1_000
    tokens_out: int = 100


class Turn(NamedTuple):
    """A part of a conversation: `kind` is text, call or result; `call_id` joins the last two."""

    role: str
    kind: str
    text: str
    call_id: str = ""


@dataclass(frozen=True)
class Request:
    """One request that the server has received. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json = field(default_factory=dict)


class Answer(NamedTuple):
    """A response: its chunks are sent one by one; `stalls` keeps the connection open after them."""

    status: int
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]
    stalls: bool = False


class ModelError(Exception):
    """The request is one that the real API refuses."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ModelApi(ABC):
    """One model API: what it refuses, what a conversation says, and how a reply is written."""

    #: An event that ends in the middle.
    malformed: str

    def __init__(self, *keys: str) -> None:
        """`keys` are those that it accepts."""
        self.keys = keys

    @abstractmethod
    def key_of(self, request: Request) -> str:
        """The key that the request was sent with."""

    @abstractmethod
    def check(self, request: Request) -> None:
        """Raise `ModelError` for a request that the real API refuses."""

    @abstractmethod
    def is_for_model(self, request: Request) -> bool:
        """Whether the path is the one at which the model replies."""

    @abstractmethod
    def tools(self, body: Json) -> set[str]:
        """The names of the tools that the request offers."""

    @abstractmethod
    def turns(self, body: Json) -> Iterator[Turn]:
        """The conversation, oldest first."""

    def answer(self, request: Request, step: Step, call_id: str) -> Answer:
        """The reply as this API writes it."""
        reply = step.reply
        if isinstance(reply, Refuse):
            return self.refused(reply)
        begun = self.begun(request, step, call_id)
        if isinstance(reply, Stall):
            return Answer(200, EVENT_STREAM, event_stream(begun), stalls=True)
        if isinstance(reply, Malformed):
            return Answer(200, EVENT_STREAM, event_stream(begun, self.malformed))
        return self.replied(request, step, reply, call_id)

    @abstractmethod
    def begun(self, request: Request, step: Step, call_id: str) -> str:
        """The event with which a stream begins."""

    @abstractmethod
    def replied(self, request: Request, step: Step, reply: Say | Call, call_id: str) -> Answer:
        """A text or a call of a tool."""

    @abstractmethod
    def refused(self, reply: Refuse) -> Answer:
        """A refusal that the script has, as of an account that has reached its limit."""

    @abstractmethod
    def refusal(self, error: ModelError) -> Answer:
        """The error as this API writes it."""


def event_stream(*events: str) -> tuple[bytes, ...]:
    """Server-sent events, one chunk each."""
    return tuple(f"{each}\n\n".encode() for each in events)


EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
JSON = {"content-type": "application/json"}


def known_fields(where: str, given: Mapping[str, Any], allowed: frozenset[str], text: str) -> None:
    """Refuse a field that the API does not know; `text` is its message, with {name}."""
    for name in given:
        if name not in allowed:
            raise ModelError(400, text.format(name=f"{where}{name}"))


def require(condition: object, message: str, status: int = 400) -> None:
    if not condition:
        raise ModelError(status, message)
