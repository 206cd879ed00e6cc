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
from detent.gateway.feed_hub import Hub, Reader
from detent.gateway.feed_messages import Filter, Form, Frame, as_array, as_stream
from detent.gateway.middleware import Visit, refuse, visit_of
from detent.gateway.openapi import ALWAYS, responses
from detent.gateway.operation_routes import GuardedRoute, GuardedSocket
from detent.gateway.problems import explained
from detent.operations.cursor_pages import of_project
from detent.operations.input_models import invalid
from detent.operations.parameters import MAX_INTEGER
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


class Wish(BaseModel):
    """What a reader asks for."""

    model_config = ConfigDict(extra="forbid")

    cursor: Annotated[
        int | None, Field(ge=0, le=MAX_INTEGER, description="Only what comes after it")
    ] = None
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


def wish_from(query: list[tuple[str, str]], last_event: str | None) -> Wish:
    given: dict[str, Any] = strict_json.once(query)
    if last_event is not None:
        given["cursor"] = last_event  # a browser that reconnects repeats its first address
    try:
        return Wish.model_validate(given)
    except ValidationError as error:
        raise invalid(error, tuple(Wish.model_fields)) from None


# ---- the WebSocket ---------------------------------------------------------------------------


class FeedSocket:
    """Sends frames until the reader leaves or is ended; listens only to notice that it left."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket, visit = WebSocket(scope, receive, send), visit_of(scope)
        try:
            visit.caller.require(Right.READ)
            wish = wish_from(socket.query_params.multi_items(), None)
            reader = _reader(wish, visit, as_array)
            await self.hub.check(wish.cursor)
        except Exception as error:
            await refuse(explained(error, visit.request_id), scope, receive, send)
            return
        await socket.accept()
        sending = asyncio.create_task(self._send(socket, reader, wish))
        leaving = asyncio.create_task(_until_gone(socket))
        await _first(sending, leaving, reader)
        for task in (sending, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await task

    async def _send(self, socket: WebSocket, reader: Reader, wish: Wish) -> None:
        async with aclosing(self.hub.read(reader, wish.cursor, live=wish.follow)) as frames:
            async for news in frames:
                await socket.send_text(news.text)
        reason = reader.ended or "done"
        await socket.close(CLOSE_CODES.get(reason, 1000), reason)


def _reader(wish: Wish, visit: Visit, form: Form) -> Reader:
    assert visit.visitor is not None
    return Reader(wish.filter_for(visit.caller), form, visit.visitor.key)


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


def feed_socket(hub: Hub) -> GuardedSocket:
    return GuardedSocket("/api/feed", FeedSocket(hub), Right.READ)


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


def events_route(hub: Hub) -> GuardedRoute:
    async def events(request: Request, visit: Visit) -> ASGIApp:
        last_event = request.headers.get("last-event-id")
        wish = wish_from(request.query_params.multi_items(), last_event)
        await hub.check(wish.cursor)
        reader = _reader(wish, visit, as_stream)
        return EventStream(hub.read(reader, wish.cursor, live=wish.follow), reader)

    found = {200: {"description": "Messages", "content": {EVENT_STREAM: {"schema": EVENT}}}}
    return GuardedRoute(
        "GET",
        "/api/events",
        events,
        Right.READ,
        [Parameter("wish", Parameter.KEYWORD_ONLY, annotation=Annotated[Wish, Query()])],
        response_class=Response,
        operation_id="follow_events",
        summary="The live feed as server-sent events, from a cursor on.",
        description="Goes on until it is left. `Last-Event-ID` resumes.\n\nNeeds the scope `read`.",
        responses={**responses((*ALWAYS, "invalid", "not_found", "too_many")), **found},
        tags=["log"],
    )
