"""Routes: each operation of the list as one, with what it reads and answers; and routes by hand.

Every route declares a scope. `check_scopes_declared` refuses to start with one that does not.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from inspect import Parameter, Signature
from typing import Annotated, Any

import msgspec
from fastapi import Body, Header, Path, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from detent.errors import Broken, Invalid, Refused
from detent.gateway import strict_json
from detent.gateway.middleware import LOGIN, OPEN, RequestContext, context_of, refuse
from detent.gateway.openapi import ALWAYS, WITH_BODY, responses
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.problems import explained
from detent.operations.input_models import bounds, fields_of
from detent.operations.parameters import INPUTS, input_for
from detent.operations.registry import Operation, Scope

#: Entity tags as this server gives them.
TAG = r'^"[1-9][0-9]{0,17}"$|^\*$'
LOOKED_AT = 'The version that was looked at, like "7"'

encode = msgspec.json.Encoder(enc_hook=str).encode
Handler = Callable[[Request, RequestContext], Awaitable[ASGIApp]]


class ScopedRoute(APIRoute):
    """A route that declares its scope; None is for the open paths and the login alone."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        scope: Scope | None,
        parameters: Iterable[Parameter] = (),
        **documented: Any,
    ) -> None:
        self.needs = scope
        self._handler = handler
        super().__init__(path, _endpoint(parameters), methods=[method], **documented)
        self.app = self._serve

    async def _serve(self, scope: Connection, receive: Receive, send: Send) -> None:
        context = context_of(scope)
        try:
            if self.needs is not None:
                context.caller.must(self.needs)
            response = await self._handler(Request(scope, receive), context)
        except Exception as error:
            await refuse(explained(error, context.request_id), scope, receive, send)
            return
        await response(scope, receive, send)


class AnyTokenRoute(ScopedRoute):
    """A route for every valid token: each operation that is asked for there checks its scope."""

    def __init__(self, method: str, path: str, handler: Handler, **documented: Any) -> None:
        super().__init__(method, path, handler, None, **documented)


class ScopedWebSocket(WebSocketRoute):
    """A WebSocket that declares its scope."""

    def __init__(self, path: str, endpoint: Callable[..., Any], scope: Scope) -> None:
        self.needs = scope
        super().__init__(path, endpoint)


def check_scopes_declared(routes: Iterable[BaseRoute], open_paths: Collection[str] = OPEN) -> None:
    """Deny by default: a route that nobody gave a scope keeps the gateway from starting."""
    for route in routes:
        path = getattr(route, "path", "?")
        if not isinstance(route, ScopedRoute | ScopedWebSocket):
            raise Broken(f"The route {path} declares no scope.")
        closed = route.needs is not None or isinstance(route, AnyTokenRoute)
        if not closed and path not in (*open_paths, LOGIN):
            raise Broken(f"The route {path} may not be open.")


def _endpoint(parameters: Iterable[Parameter]) -> Callable[..., Any]:
    """What FastAPI reads the documentation from; it is never called."""

    def endpoint() -> None:
        raise AssertionError

    endpoint.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined]
    return endpoint


# ---- operations ------------------------------------------------------------------------------


class OperationRoute(ScopedRoute):
    """One operation over HTTP."""

    def __init__(
        self, operation: Operation, dispatcher: OperationDispatcher, limits: strict_json.Limits
    ) -> None:
        self.operation = operation
        self.dispatcher = dispatcher
        self.limits = limits
        self.fields = fields_of(operation)
        names = {each.name for each in operation.parameters}
        self.takes_key = "idempotency_key" in names
        self.takes_seen = "seen" in names
        self.submits = operation.request is not None and operation.whole is None
        super().__init__(
            operation.method,
            operation.path,
            self.serve,
            operation.scope,
            _documented(operation),
            response_model=operation.answer,
            status_code=operation.status,
            operation_id=operation.name,
            summary=operation.summary,
            description=f"Needs the scope `{operation.scope}`.",
            response_description="Done",
            responses=_answers(operation),
            tags=[_noun(operation.path)],
        )

    async def serve(self, request: Request, context: RequestContext) -> Response:
        arguments = await self._arguments(request)
        try:
            answer = await self.dispatcher.ask(self.operation, context.caller, arguments)
        except Refused as refusal:
            if refusal.code == "version_conflict" and "if-match" in request.headers:
                raise Refused(refusal.message, code="precondition_failed") from None
            raise
        return _answered(self.operation, request, answer)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        query = strict_json.once(request.query_params.multi_items())
        if self.fields.in_query:
            found = self.fields.read(query)
        else:
            if query:
                name = next(iter(query))
                raise Invalid(f"{name} does not belong into the query.", field=name)
            found = await self._body(request)
        self._headers(request, found)
        for name, value in request.path_params.items():
            found[name] = _within(strict_json.plain(value, name), name, self.operation)
        return found

    async def _body(self, request: Request) -> dict[str, Any]:
        body = await strict_json.read_body(request, self.limits.size)
        if not body and self.fields.optional:
            return {}
        strict_json.must_be(request, strict_json.JSON)
        value = strict_json.decode(body, self.limits)
        if self.submits and isinstance(value, dict):
            return value  # its shape is checked where the submission is made
        return self.fields.read(value)

    def _headers(self, request: Request, found: dict[str, Any]) -> None:
        """What may come in a header as well as in the body; both must say the same."""
        key = request.headers.get("idempotency-key")
        if key is not None and self.takes_key:
            _same(found, "idempotency_key", self._key(key), "Idempotency-Key")
        match = request.headers.get("if-match")
        if match is None or request.method == "GET":
            return
        if not self.takes_seen:
            raise Invalid("If-Match is honoured by accept and reject only.", field="If-Match")
        if match.strip() != "*":
            _same(found, "seen", version_from(match), "If-Match")

    def _key(self, given: str) -> str:
        longest = INPUTS["idempotency_key"].longest or 0
        if not 1 <= len(given) <= longest:
            raise Invalid(
                f"Idempotency-Key must have 1 to {longest} characters.", field="Idempotency-Key"
            )
        return given


def _within(value: str, name: str, operation: Operation) -> str:
    """A parameter of the path, if it keeps its bounds."""
    known = input_for(operation.name, name)
    if known.longest is not None and len(value) > known.longest:
        raise Invalid(f"{name} has more than {known.longest} characters.", field=name, given=value)
    if known.pattern is not None and not re.search(known.pattern, value):
        raise Invalid(f"{name} must match {known.pattern}.", field=name, given=value)
    return value


def _same(found: dict[str, Any], name: str, value: Any, header: str) -> None:
    if found.get(name) not in (None, value):
        raise Refused(f"{header} and {name} differ.", details={"field": header})
    found[name] = value


def version_from(tag: str) -> int:
    """The version that an entity tag of ours names."""
    if re.fullmatch(TAG, tag.strip()):
        return int(tag.strip(' "'))
    raise Invalid(
        'If-Match must be one entity tag as this server gives them, like "7".',
        field="If-Match",
        given=tag,
    )


def _answered(operation: Operation, request: Request, answer: Any) -> Response:
    """The answer as JSON; what has a version carries it as its entity tag."""
    headers = {}
    if isinstance(answer, dict) and "version" in answer:
        headers["ETag"] = f'"{answer["version"]}"'
        if operation.method == "GET" and request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
    return Response(encode(answer), operation.status, headers, media_type=strict_json.JSON)


# ---- what the document says of an operation --------------------------------------------------


def _noun(path: str) -> str:
    parts = path.removeprefix("/api").strip("/").split("/")
    return "intake" if parts[0] in ("add", "enqueue", "status") else parts[0]


def _documented(operation: Operation) -> list[Parameter]:
    """The operation's parameters where HTTP has them."""
    fields = fields_of(operation)
    places: dict[str, Any] = {
        name: (Annotated[str, Path(**bounds(input_for(operation.name, name)))], Parameter.empty)
        for name in operation.in_path
    }
    if fields.in_query:
        for each in fields.parameters:
            query = Query(**bounds(input_for(operation.name, each.name)))
            places[each.name] = (Annotated[each.annotation, query], each.default)
    elif fields.body is not None:
        default = None if fields.optional else Parameter.empty
        places["body"] = (Annotated[fields.body, Body()], default)
    if "idempotency_key" in fields.names:
        key = Header(alias="Idempotency-Key", **bounds(INPUTS["idempotency_key"]))
        places["idempotency"] = (Annotated[str | None, key], None)
    if "seen" in fields.names:
        match = Header(alias="If-Match", pattern=TAG, description=LOOKED_AT)
        places["match"] = (Annotated[str | None, match], None)
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in places.items()
    ]


def _answers(operation: Operation) -> dict[int | str, dict[str, Any]]:
    """Every error that the operation can meet."""
    names = {each.name for each in operation.parameters}
    codes: tuple[str, ...] = (*ALWAYS, "invalid")
    if operation.method not in ("GET", "DELETE"):
        codes += WITH_BODY
    if operation.method != "GET" or operation.scope is Scope.RUN:
        codes += ("refused",)  # a run's token speaks for a run that may have ended
    if operation.in_path or names & {"parent_id", "project"}:
        codes += ("not_found",)
    if operation.scope in (Scope.SUBMIT, Scope.RUN) or "signal" in operation.name:
        codes += ("too_many",)
    if "seen" in names:
        codes += ("precondition_failed",)
    found = responses(codes)
    if operation.method == "GET" and "version" in operation.answer.__annotations__:
        found[304] = {"description": "Still the version that `If-None-Match` names"}
    return found
