"""Routes with a scope: one for each operation, and the base classes of all others.

Every route declares its scope. `check_scopes_declared` refuses to start with one that does not.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from detent.errors import Broken, Invalid, Refused
from detent.gateway import strict_json
from detent.gateway.middleware import LOGINS, OPEN, RequestContext, context_of, refuse
from detent.gateway.openapi import (
    ALWAYS,
    WITH_BODY,
    Documentation,
    Json,
    JsonBody,
    field_parameter,
    parameter,
)
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.problems import explained
from detent.operations.input_models import (
    BulkInput,
    OperationInput,
    SubmissionInput,
    fields_for,
    input_of,
)
from detent.operations.parameters import INPUTS, input_for
from detent.operations.registry import Operation, Scope

#: Entity tags as this server makes them.
TAG = r'^"[1-9][0-9]{0,17}"$|^\*$'

encode = msgspec.json.Encoder(enc_hook=str).encode
Handler = Callable[[Request, RequestContext], Awaitable[ASGIApp]]


class ScopedRoute(Route):
    """A route that declares its scope; only the public paths and the login have none (None)."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        scope: Scope | None,
        documentation: Documentation | None = None,
    ) -> None:
        super().__init__(path, handler, methods=[method])
        self.method = method
        self.methods = {method}  # Starlette would add HEAD to GET
        self.needs = scope
        self.documentation = documentation
        self._handler = handler

    async def handle(self, scope: Connection, receive: Receive, send: Send) -> None:
        context = context_of(scope)
        try:
            if scope["method"] != self.method:
                raise _method_not_allowed(scope)
            context.path = self.path
            if self.needs is not None and self.needs not in context.caller.scopes:
                context.caller.require(self.needs)  # admin includes it
            response = await self._handler(Request(scope, receive), context)
        except Exception as error:
            await refuse(explained(error, context.request_id), scope, receive, send)
            return
        await response(scope, receive, send)


def _method_not_allowed(scope: Connection) -> Invalid:
    path, method = scope["path"], scope["method"]
    allowed = {
        each.method
        for each in scope["router"].routes
        if isinstance(each, ScopedRoute) and each.path_regex.match(path)
    }
    return Invalid(
        f"{path} does not accept {method}; it accepts {', '.join(sorted(allowed))}.",
        code="method_not_allowed",
        field="method",
        given=method,
        allowed=tuple(sorted(allowed)),
    )


class AnyTokenRoute(ScopedRoute):
    """A route for every valid token: the operations that it calls check their own scopes."""

    def __init__(self, method: str, path: str, handler: Handler) -> None:
        super().__init__(method, path, handler, None)


class ScopedWebSocket(WebSocketRoute):
    """A WebSocket that declares its scope."""

    def __init__(self, path: str, endpoint: Callable[..., Any], scope: Scope) -> None:
        self.needs = scope
        super().__init__(path, endpoint)

    async def handle(self, scope: Connection, receive: Receive, send: Send) -> None:
        context_of(scope).path = self.path
        await super().handle(scope, receive, send)


def check_scopes_declared(routes: Iterable[BaseRoute], open_paths: Collection[str] = OPEN) -> None:
    """Refuse to start with a route that declares no scope and is not a public path."""
    for route in routes:
        path = getattr(route, "path", "?")
        if not isinstance(route, ScopedRoute | ScopedWebSocket):
            raise Broken(f"The route {path} declares no scope.")
        closed = route.needs is not None or isinstance(route, AnyTokenRoute)
        if not closed and path not in (*open_paths, *LOGINS):
            raise Broken(f"The route {path} may not be open.")


# ---- operations ------------------------------------------------------------------------------


class OperationRoute(ScopedRoute):
    """One operation over HTTP."""

    def __init__(
        self, operation: Operation, dispatcher: OperationDispatcher, limits: strict_json.Limits
    ) -> None:
        self.operation = operation
        self.dispatcher = dispatcher
        self.limits = limits
        self.input = input_of(operation)
        self.is_submission = isinstance(self.input, SubmissionInput)
        self.takes_key = "idempotency_key" in self.input.names
        self.takes_version = "seen" in self.input.names
        super().__init__(
            operation.method,
            operation.path,
            self.serve,
            operation.scope,
            _documentation(operation, self.input),
        )

    async def serve(self, request: Request, context: RequestContext) -> Response:
        arguments = await self._arguments(request)
        try:
            answer = await self.dispatcher.call(self.operation, context.caller, arguments)
        except Refused as refusal:
            if refusal.code == "version_conflict" and "if-match" in request.headers:
                raise Refused(refusal.message, code="precondition_failed") from None
            raise
        return _answered(self.operation, request, answer)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        query: dict[str, str] = {}
        if request.scope["query_string"]:
            query = strict_json.once(request.query_params.multi_items())
        if self.input.in_query:
            found = self.input.read(query)
        else:
            if query:
                name = next(iter(query))
                raise Invalid(f"{name} is not allowed in the query string.", field=name)
            found = await self._body(request)
        self._headers(request, found)
        for name, value in request.path_params.items():
            found[name] = _within(strict_json.plain(value, name), name, self.operation)
        return found

    async def _body(self, request: Request) -> dict[str, Any]:
        body = await strict_json.read_body(request, self.limits.size)
        if not body and self.input.optional:
            return {}
        strict_json.must_be(request, strict_json.JSON)
        value = strict_json.decode(body, self.limits)
        if self.is_submission and isinstance(value, dict):
            return value  # `submission.request` checks its shape
        return self.input.read(value)

    def _headers(self, request: Request, found: dict[str, Any]) -> None:
        """Add what may be in a header or in the body; both must have the same value."""
        key = request.headers.get("idempotency-key")
        if key is not None and self.takes_key:
            _same(found, "idempotency_key", self._key(key), "Idempotency-Key")
        match = request.headers.get("if-match")
        if match is None or request.method == "GET":
            return
        if not self.takes_version:
            raise Invalid(
                "This operation does not honour If-Match. Send the request without it.",
                field="If-Match",
            )
        if match.strip() != "*":
            _same(found, "seen", version_from(match), "If-Match")

    def _key(self, given: str) -> str:
        longest = INPUTS["idempotency_key"].longest or 0
        if not 1 <= len(given) <= longest:
            raise Invalid(
                f"Idempotency-Key must have 1 to {longest} characters.",
                field="Idempotency-Key",
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
        return int(tag.strip().strip('"'))
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


# ---- documentation ---------------------------------------------------------------------------


def _documentation(operation: Operation, given: OperationInput) -> Documentation:
    not_modified = operation.method == "GET" and "version" in operation.response.__annotations__
    return Documentation(
        operation_id=operation.name,
        summary=operation.summary,
        description=f"Needs the scope `{operation.scope}`.",
        tag=_tag(operation.path),
        parameters=tuple(_parameters(operation, given)),
        body=_body(given),
        status=operation.status,
        response_type=operation.response,
        response_description="Done",
        responses={304: NOT_MODIFIED} if not_modified else {},
        errors=_errors(operation),
    )


def _body(given: OperationInput) -> JsonBody | None:
    if given.body is None:
        return None
    listed = given.listed if isinstance(given, BulkInput) else None
    return JsonBody(model=given.body, required=not given.optional, listed=listed)


NOT_MODIFIED = {"description": "The version is still the one that `If-None-Match` names"}


def _tag(path: str) -> str:
    parts = path.removeprefix("/api").strip("/").split("/")
    return "intake" if parts[0] in ("add", "enqueue", "status") else parts[0]


def _parameters(operation: Operation, given: OperationInput) -> Iterable[Json]:
    """The operation's parameters in the path, the query string and the headers."""
    in_path = (each for each in operation.parameters if each.name in operation.in_path)
    for field in fields_for(operation, in_path):
        yield field_parameter("path", field)
    for field in given.fields:
        if given.in_query:
            yield field_parameter("query", field)
        if field.name == "idempotency_key":
            yield field_parameter("header", field, "Idempotency-Key")
        if field.name == "seen":
            schema = {
                "type": "string",
                "pattern": TAG,
                "description": 'The version that you have read, like "7"',
            }
            yield parameter("header", "If-Match", schema)


def _errors(operation: Operation) -> tuple[str, ...]:
    """The code of every error that the operation can return."""
    names = {each.name for each in operation.parameters}
    codes: tuple[str, ...] = (*ALWAYS, "invalid")
    if operation.method not in ("GET", "DELETE"):
        codes += WITH_BODY
    if operation.method != "GET" or operation.scope is Scope.RUN:
        codes += ("refused",)  # the run of a run's token may have ended
    if operation.in_path or names & {"parent_id", "project"}:
        codes += ("not_found",)
    if operation.scope in (Scope.SUBMIT, Scope.RUN) or "signal" in operation.name:
        codes += ("too_many",)
    if "seen" in names:
        codes += ("precondition_failed",)
    return codes
