"""The live feed over HTTP: `/api/feed` as a WebSocket, `/api/events` as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from detent.gateway import strict_json
from detent.gateway.feed_hub import FeedHub, Reader
from detent.gateway.feed_messages import Filter, Form, Frame, as_array, as_stream
from detent.gateway.middleware import RequestContext, context_of, refuse
from detent.gateway.openapi import ALWAYS, Documentation, Json, parameter
from detent.gateway.operation_routes import ScopedRoute, ScopedWebSocket
from detent.gateway.problems import explained
from detent.operations.cursor_pages import of_project
from detent.operations.parameters import MAX_INTEGER
from detent.operations.registry import Caller
from detent.operations.registry import Scope as Right
from detent.submission.request import convert

#: How long a dropped reader may take to receive the reason.
GRACE_S = 10.0
EVENT_STREAM = "text/event-stream"
#: One server-sent event as a schema.
EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string"},
        "event": {"type": "string"},
    },
}
#: The close code of a WebSocket by the reason.
CLOSE_CODES = {"stopping": 1012, "unauthorized": 4401, "slow_reader": 4408}


class FeedQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The query string of both feeds."""

    cursor: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | None,
        Meta(description="Only what comes after this position of the log"),
    ] = None
    project: Annotated[
        Annotated[str, Meta(max_length=200)] | None, Meta(description="Only this project")
    ] = None
    task: Annotated[
        Annotated[str, Meta(max_length=200)] | None, Meta(description="Only this task")
    ] = None
    names: Annotated[
        Annotated[str, Meta(max_length=2_000)] | None,
        Meta(description="Only these events and messages, separated by commas"),
    ] = None
    follow: Annotated[bool, Meta(description="Continue with events as they happen")] = True

    def filter_for(self, caller: Caller) -> Filter:
        """The filter, limited to what the caller may read."""
        project = of_project(caller, {}, self.project).get("project")
        names = (each.strip() for each in (self.names or "").split(","))
        return Filter(project, self.task, frozenset(filter(None, names)))


def query_from(query: list[tuple[str, str]], last_event: str | None) -> FeedQuery:
    given: dict[str, Any] = strict_json.once(query)
    if last_event is not None:
        given["cursor"] = last_event  # a browser that reconnects repeats its first URL
    return convert(FeedQuery, given, strict=False)


def query_parameters() -> tuple[Json, ...]:
    """The fields of the query string, for the OpenAPI document."""
    (schema,) = msgspec.json.schema_components([FeedQuery])[1].values()
    fields = schema["properties"]
    return tuple(parameter("query", name, _without_null(fields[name])) for name in fields)


def _without_null(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if (key, value) != ("default", None)}


# ---- the WebSocket ---------------------------------------------------------------------------


class FeedSocket:
    """Sends frames until the client disconnects or the reader is ended; ignores all messages."""

    def __init__(self, hub: FeedHub) -> None:
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket, context = WebSocket(scope, receive, send), context_of(scope)
        try:
            context.caller.require(Right.READ)
            query = query_from(socket.query_params.multi_items(), None)
            reader = _reader(query, context, as_array)
            await self.hub.check(query.cursor)
        except Exception as error:
            await refuse(explained(error, context.request_id), scope, receive, send)
            return
        await socket.accept()
        sending = asyncio.create_task(self._send(socket, reader, query))
        leaving = asyncio.create_task(_until_disconnected(socket))
        await _first(sending, leaving, reader)
        for task in (sending, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await task

    async def _send(self, socket: WebSocket, reader: Reader, query: FeedQuery) -> None:
        async with aclosing(self.hub.read(reader, query.cursor, live=query.follow)) as frames:
            async for news in frames:
                await socket.send_text(news.text)
        reason = reader.ended or "done"
        await socket.close(CLOSE_CODES.get(reason, 1000), reason)


def _reader(query: FeedQuery, context: RequestContext, form: Form) -> Reader:
    assert context.principal is not None
    return Reader(query.filter_for(context.caller), form, context.principal.key)


async def _first(
    sending: "asyncio.Task[None]", leaving: "asyncio.Task[None]", reader: Reader
) -> None:
    """Wait until all is sent or the client has left; an ended reader has `GRACE_S` for the rest."""
    ending = asyncio.create_task(reader.over.wait())
    try:
        await asyncio.wait({sending, leaving, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done() and not leaving.done():
            await asyncio.wait({sending}, timeout=GRACE_S)
    finally:
        ending.cancel()


async def _until_disconnected(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue


def feed_socket(hub: FeedHub) -> ScopedWebSocket:
    return ScopedWebSocket("/api/feed", FeedSocket(hub), Right.READ)


# ---- server-sent events ----------------------------------------------------------------------


class EventStream:
    """Sends frames as they come, until the client disconnects or the reader is ended."""

    def __init__(self, frames: AsyncGenerator[Frame, None], reader: Reader) -> None:
        self.frames = frames
        self.reader = reader

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        # x-accel-buffering: a proxy that buffers the response would delay the events.
        headers = [(b"content-type", EVENT_STREAM.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.create_task(self._end_when_disconnected(receive))
        try:
            async with aclosing(self.frames) as frames:
                async for news in frames:
                    body = news.text.encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()

    async def _end_when_disconnected(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self.reader.end("gone")


def events_route(hub: FeedHub) -> ScopedRoute:
    async def events(request: Request, context: RequestContext) -> ASGIApp:
        last_event = request.headers.get("last-event-id")
        query = query_from(request.query_params.multi_items(), last_event)
        await hub.check(query.cursor)
        reader = _reader(query, context, as_stream)
        return EventStream(hub.read(reader, query.cursor, live=query.follow), reader)

    documentation = Documentation(
        operation_id="follow_events",
        summary="The live feed as server-sent events, after a cursor.",
        description=(
            "Continues until the client disconnects. `Last-Event-ID` resumes.\n\n"
            "Needs the scope `read`."
        ),
        tag="log",
        parameters=query_parameters(),
        responses={200: {"description": "Messages", "content": {EVENT_STREAM: {"schema": EVENT}}}},
        errors=(*ALWAYS, "invalid", "not_found", "too_many"),
    )
    return ScopedRoute("GET", "/api/events", events, Right.READ, documentation)
