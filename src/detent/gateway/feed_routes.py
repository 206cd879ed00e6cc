"""The live feed's two doors: `/api/feed` as a WebSocket, `/api/events` as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from inspect import Parameter
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from detent.gateway import strict_json
from detent.gateway.feed_hub import FeedHub, Reader
from detent.gateway.feed_messages import Filter, Form, Frame, as_array, as_stream
from detent.gateway.middleware import RequestContext, context_of, refuse
from detent.gateway.openapi import ALWAYS, responses
from detent.gateway.operation_routes import ScopedRoute, ScopedWebSocket
from detent.gateway.problems import explained
from detent.operations.cursor_pages import of_project
from detent.operations.input_models import invalid
from detent.operations.parameters import MOST
from detent.operations.registry import Caller
from detent.operations.registry import Scope as Right

#: How long a reader that was dropped may take to hear why.
GRACE_S = 10.0
EVENT_STREAM = "text/event-stream"
#: One server-sent event, as OpenAPI sees it.
EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string"},
        "event": {"type": "string"},
    },
}
#: How a WebSocket is closed, by the reason.
CLOSE_CODES = {"stopping": 1012, "unauthorized": 4401, "slow_reader": 4408}


class FeedQuery(BaseModel):
    """What a reader asks for."""

    model_config = ConfigDict(extra="forbid")

    cursor: Annotated[int | None, Field(ge=0, le=MOST, description="Only what comes after it")] = (
        None
    )
    project: Annotated[str | None, Field(max_length=200, description="Only this project")] = None
    task: Annotated[str | None, Field(max_length=200, description="Only this task")] = None
    names: Annotated[
        str | None,
        Field(max_length=2_000, description="Only these events and messages, by commas"),
    ] = None
    follow: Annotated[bool, Field(description="Go on with what happens from now on")] = True

    def filter_for(self, caller: Caller) -> Filter:
        """The filter, kept to what the caller may see."""
        project = of_project(caller, {}, self.project).get("project")
        names = (each.strip() for each in (self.names or "").split(","))
        return Filter(project, self.task, frozenset(filter(None, names)))


def query_from(query: list[tuple[str, str]], last_event: str | None) -> FeedQuery:
    given: dict[str, Any] = strict_json.once(query)
    if last_event is not None:
        given["cursor"] = last_event  # a browser that reconnects repeats its first address
    try:
        return FeedQuery.model_validate(given)
    except ValidationError as error:
        raise invalid(error, tuple(FeedQuery.model_fields)) from None


# ---- the WebSocket ---------------------------------------------------------------------------


class FeedSocket:
    """Sends frames until the reader leaves or is ended; listens only to notice that it left."""

    def __init__(self, hub: FeedHub) -> None:
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket, context = WebSocket(scope, receive, send), context_of(scope)
        try:
            context.caller.must(Right.READ)
            query = query_from(socket.query_params.multi_items(), None)
            reader = _reader(query, context, as_array)
            await self.hub.check(query.cursor)
        except Exception as error:
            await refuse(explained(error, context.request_id), scope, receive, send)
            return
        await socket.accept()
        sending = asyncio.create_task(self._send(socket, reader, query))
        leaving = asyncio.create_task(_until_gone(socket))
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
    """Until all was sent or the reader is gone; one that was ended gets some time to hear it."""
    ending = asyncio.create_task(reader.over.wait())
    try:
        await asyncio.wait({sending, leaving, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done() and not leaving.done():
            await asyncio.wait({sending}, timeout=GRACE_S)
    finally:
        ending.cancel()


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue


def feed_socket(hub: FeedHub) -> ScopedWebSocket:
    return ScopedWebSocket("/api/feed", FeedSocket(hub), Right.READ)


# ---- server-sent events ----------------------------------------------------------------------


class EventStream:
    """Frames as they come, until the client leaves or the reader is ended."""

    def __init__(self, frames: AsyncGenerator[Frame, None], reader: Reader) -> None:
        self.frames = frames
        self.reader = reader

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        # A proxy that gathers the answer before it passes it on would hold the events back.
        headers = [(b"content-type", EVENT_STREAM.encode()), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        leaving = asyncio.create_task(self._end_when_gone(receive))
        try:
            async with aclosing(self.frames) as frames:
                async for news in frames:
                    body = news.text.encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()

    async def _end_when_gone(self, receive: Receive) -> None:
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

    found = {200: {"description": "Messages", "content": {EVENT_STREAM: {"schema": EVENT}}}}
    return ScopedRoute(
        "GET",
        "/api/events",
        events,
        Right.READ,
        [Parameter("query", Parameter.KEYWORD_ONLY, annotation=Annotated[FeedQuery, Query()])],
        response_class=Response,
        operation_id="follow_events",
        summary="The live feed as server-sent events, from a cursor on.",
        description="Goes on until it is left. `Last-Event-ID` resumes.\n\nNeeds the scope `read`.",
        responses={**responses((*ALWAYS, "invalid", "not_found", "too_many")), **found},
        tags=["log"],
    )
