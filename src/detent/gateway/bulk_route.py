"""`POST /api/bulk/lines`: many tasks as JSON lines, read in chunks of one transaction each.

Other requests are served between two chunks, so a long upload does not block them.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from detent.engine import CommandRequest, CommandResult
from detent.errors import DetentError, Invalid
from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext, context_of
from detent.gateway.openapi import ALWAYS, WITH_BODY, Documentation, Json, parameter
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute
from detent.gateway.problems import document, explained
from detent.operations.intake import one_task
from detent.operations.registry import Caller
from detent.operations.registry import Scope as Right

MAX_LINES = 500
MAX_BYTES = 1_048_576
IDS: Json = {
    "type": "boolean",
    "default": False,
    "description": "List the ids of the tasks in the response",
}


class Chunk:
    """Consecutive lines of a body, and the number of the first; numbers start at 1."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.lines: list[bytes] = []
        self.size = 0

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self.size += len(line)

    @property
    def full(self) -> bool:
        return len(self.lines) >= MAX_LINES or self.size >= MAX_BYTES


async def chunks(request: Request, longest: int) -> AsyncIterator[Chunk]:
    """The lines of a body in full chunks; only the last one may be smaller."""
    rest, chunk = b"", Chunk(1)
    async for piece in strict_json.pieces(request):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            chunk.add(line)
            if chunk.full:
                yield chunk
                chunk = Chunk(chunk.first + len(chunk.lines))
        if len(rest) > longest:
            number = chunk.first + len(chunk.lines)
            raise Invalid(f"Line {number} is over {longest} bytes.", field=f"line {number}")
    if rest:
        chunk.add(rest)
    if chunk.lines:
        yield chunk


class ChunkSubmitter:
    """Submits chunks for one caller."""

    def __init__(
        self, dispatcher: OperationDispatcher, caller: Caller, limits: strict_json.Limits
    ) -> None:
        self.core = dispatcher.core
        self.caller = caller
        self.limits = limits

    def submit(self, chunk: Chunk, request_id: str, *, ids: bool) -> dict[str, Any]:
        """Submit a chunk; each line is accepted or refused alone."""
        context = self.core.submission_context(self.caller)
        requests: dict[int, CommandRequest] = {}
        refused: list[dict[str, Any]] = []
        for number, line in enumerate(chunk.lines, chunk.first):
            if line.strip():
                try:
                    given = strict_json.decode(line, self.limits)
                    requests[number] = one_task(context, given).request()
                except DetentError as error:
                    refused.append({"line": number, **document(error, request_id)})
        commands = list(requests.values())
        results = self.core.engine.execute(commands, bulk=True) if commands else []
        for number, result in zip(requests, results, strict=True):
            if isinstance(result, DetentError):
                refused.append({"line": number, **document(result, request_id)})
        accepted = [result.value for result in results if isinstance(result, CommandResult)]
        committed = {
            "first": chunk.first,
            "last": chunk.first + len(chunk.lines) - 1,
            "accepted": len(accepted),
            "refused": sorted(refused, key=lambda each: int(each["line"])),
        }
        return {**committed, "ids": accepted} if ids else committed


class LinesResponse:
    """A response line for each chunk, sent when the chunk is committed."""

    def __init__(
        self,
        request: Request,
        dispatcher: OperationDispatcher,
        submitter: ChunkSubmitter,
        ids: bool,
    ) -> None:
        self.request = request
        self.dispatcher = dispatcher
        self.submitter = submitter
        self.ids = ids

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        headers = [(b"content-type", strict_json.LINES.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        request_id = context_of(scope).request_id
        try:
            async for chunk in chunks(self.request, self.submitter.limits.text):
                submit = partial(self.submitter.submit, chunk, request_id, ids=self.ids)
                await _line(send, await self.dispatcher.run_in_thread(submit))
        except Exception as error:
            problem = document(explained(error, request_id), request_id)
            await _line(send, {"error": problem})
        await send({"type": "http.response.body", "body": b""})


async def _line(send: Send, value: Any) -> None:
    body = msgspec.json.encode(value, enc_hook=str) + b"\n"
    await send({"type": "http.response.body", "body": body, "more_body": True})


def lines_route(dispatcher: OperationDispatcher, limits: strict_json.Limits) -> ScopedRoute:
    async def lines(request: Request, context: RequestContext) -> ASGIApp:
        strict_json.must_be(request, strict_json.LINES)
        query = strict_json.once(request.query_params.multi_items())
        ids = query.pop("ids", "false")
        if query or ids not in ("true", "false"):
            name = next(iter(query), "ids")
            raise Invalid(
                f"{name} is not allowed in the query string; only ids=true or ids=false is.",
                field=name,
                allowed=("ids",),
            )
        submitter = ChunkSubmitter(dispatcher, context.caller, limits)
        return LinesResponse(request, dispatcher, submitter, ids == "true")

    documentation = Documentation(
        operation_id="submit_lines",
        summary="Create many tasks from JSON lines, in chunks while they arrive.",
        description=DESCRIPTION,
        tag="tasks",
        parameters=(parameter("query", "ids", IDS),),
        body=_body(),
        responses={200: _response()},
        errors=(*ALWAYS, *WITH_BODY, "invalid"),
    )
    return ScopedRoute("POST", "/api/bulk/lines", lines, Right.SUBMIT, documentation)


DESCRIPTION = """\
Each line is a task with the fields of `submit_task`. Every chunk of at most 500 lines is one
transaction and has one response line: the numbers of its lines, how many were accepted, and the
problem of each refused line. A line that is too long ends the upload with an `error`.

Needs the scope `submit`.
"""


def _body() -> dict[str, Any]:
    example = '{"intent": "runQA", "run": true}\n{"intent": "runQA"}\n'
    return {"required": True, "content": {strict_json.LINES: {"schema": {}, "example": example}}}


def _response() -> dict[str, Any]:
    example = '{"first": 1, "last": 2, "accepted": 2, "refused": []}\n'
    content = {strict_json.LINES: {"schema": {"type": "string"}, "example": example}}
    return {"description": "One line for each chunk", "content": content}
