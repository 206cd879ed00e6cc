"""`/a2a` and the agent card: other agents submit tasks by the Agent2Agent protocol (A2A).

The methods of the protocol are passed in by the caller.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, Protocol

import anyio
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from detent.errors import Invalid, NotFound, TooLarge
from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import AnyTokenRoute, encode
from detent.operations.registry import OPERATIONS, Caller, CallOperation

PATH = "/a2a"
CARD = "/.well-known/agent-card.json"
VERSION_HEADER = "a2a-version"
PARSE_ERROR = -32700


class A2aClient(NamedTuple):
    """The client of a request: its operations, its name, and the address that it used."""

    call: CallOperation
    name: str
    base: str
    #: Set when the gateway stops.
    stopping: anyio.Event


class A2aMethods(Protocol):
    """The methods of the protocol."""

    async def card(self, call: CallOperation, base: str) -> Mapping[str, Any]: ...

    async def respond(
        self, client: A2aClient, given_version: str | None, body: Any
    ) -> Mapping[str, Any] | AsyncIterator[Mapping[str, Any]]: ...


class A2aEndpoint:
    """The handlers of both paths."""

    def __init__(
        self,
        dispatcher: OperationDispatcher,
        limits: strict_json.Limits,
        methods: A2aMethods | None,
    ) -> None:
        self.dispatcher = dispatcher
        self.limits = limits
        self._methods = methods
        self._stopping = anyio.Event()

    def stop(self) -> None:
        """End the requests and streams that wait. Called on the event loop."""
        self._stopping.set()

    async def card(self, request: Request, context: RequestContext) -> ASGIApp:
        """The agent card, for the caller's token."""
        found = await self._known().card(self._calls_for(context.caller), _base(request))
        return Response(encode(found), media_type=strict_json.JSON)

    async def handle(self, request: Request, context: RequestContext) -> ASGIApp:
        """The response to one request, or a stream of server-sent events."""
        methods, caller = self._known(), context.caller
        body = await strict_json.read_body(request, self.limits.size)
        strict_json.must_be(request, strict_json.JSON)
        try:
            given = strict_json.decode(body, self.limits)
        except (Invalid, TooLarge) as error:
            about = {"code": PARSE_ERROR, "message": error.message}
            return _json({"jsonrpc": "2.0", "id": None, "error": about})
        calls = self._calls_for(caller)
        client = A2aClient(calls, caller.actor.name, _base(request), self._stopping)
        found = await methods.respond(client, request.headers.get(VERSION_HEADER), given)
        if isinstance(found, Mapping):
            return _json(found)
        return StreamingResponse(_events(found), media_type="text/event-stream")

    def _known(self) -> A2aMethods:
        if self._methods is None:
            raise NotFound("This gateway does not serve A2A.")
        return self._methods

    def _calls_for(self, caller: Caller) -> CallOperation:
        async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
            return await self.dispatcher.call(OPERATIONS[operation], caller, arguments)

        return call


def _base(request: Request) -> str:
    """The address by which the client reached the gateway; the Host header was checked."""
    return str(request.base_url).rstrip("/")


def _json(value: Mapping[str, Any]) -> Response:
    return Response(encode(value), media_type=strict_json.JSON)


async def _events(found: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[bytes]:
    async for each in found:
        yield b"data: " + encode(each) + b"\n\n"


def a2a_routes(endpoint: A2aEndpoint) -> list[AnyTokenRoute]:
    """The routes. The agent card describes them, so the OpenAPI document omits them."""
    return [
        AnyTokenRoute("POST", PATH, endpoint.handle),
        AnyTokenRoute("GET", CARD, endpoint.card),
    ]
