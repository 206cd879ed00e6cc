"""Login and logout of browsers: a single-use code is exchanged for a session cookie."""

from inspect import Parameter

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from detent import views
from detent.errors import Forbidden
from detent.gateway import strict_json
from detent.gateway.auth import COOKIE, SECURE_COOKIE, Tokens
from detent.gateway.middleware import LOGIN, RequestContext
from detent.gateway.openapi import ALWAYS, WITH_BODY, Documentation, JsonBody
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute, encode
from detent.operations import schemas
from detent.operations.input_models import Field, InputModel
from detent.operations.parameters import Input
from detent.operations.registry import Scope
from detent.operations.sessions import exchange, log_out

#: The maximum size of a body that is read before its sender is authenticated.
MAX_LOGIN_BYTES = 16_384
CODE = Input("The code of a one-time link", "detent_…", shortest=1, longest=200)
LOGIN_BODY = InputModel(
    "LoginBody",
    [Field(Parameter("code", Parameter.KEYWORD_ONLY, annotation=str), CODE)],
)


def login_route(dispatcher: OperationDispatcher, limits: strict_json.Limits) -> ScopedRoute:
    """The route whose credential is in its body: a single-use code."""

    async def log_in(request: Request, _: RequestContext) -> ASGIApp:
        given = await strict_json.read_object(request, limits, MAX_LOGIN_BYTES)
        code = LOGIN_BODY.read(given)["code"]
        secret, row, lifetime_s = await dispatcher.run_in_thread(
            lambda: exchange(dispatcher.core, code)
        )
        shown = {name: row.get(name) for name in schemas.Token.__annotations__}
        response = Response(encode(views.shown(shown)), 200, media_type=strict_json.JSON)
        set_session_cookie(response, secret, lifetime_s, secure=_is_secure(request))
        return response

    documentation = Documentation(
        operation_id="log_in",
        summary="Exchange a single-use code for a session cookie.",
        tag="login",
        body=JsonBody(model=LOGIN_BODY),
        response_type=schemas.Token,
        errors=(*ALWAYS, *WITH_BODY, "invalid"),
        public=True,
    )
    return ScopedRoute("POST", LOGIN, log_in, None, documentation)


def logout_route(dispatcher: OperationDispatcher, tokens: Tokens) -> ScopedRoute:
    async def end(request: Request, context: RequestContext) -> ASGIApp:
        if context.principal is None:
            raise Forbidden("The request has no session to end.")
        key = context.principal.key
        await dispatcher.run_in_thread(lambda: log_out(dispatcher.core, key))
        tokens.forget()
        response = Response(status_code=204)
        set_session_cookie(response, "", 0, secure=_is_secure(request))
        return response

    documentation = Documentation(
        operation_id="log_out",
        summary="End the session and delete its cookie.",
        tag="login",
        status=204,
    )
    return ScopedRoute("POST", "/api/logout", end, Scope.READ, documentation)


def _is_secure(request: Request) -> bool:
    return request.headers.get("origin", "").startswith("https://")


def set_session_cookie(response: Response, token: str, lifetime_s: int, *, secure: bool) -> None:
    """Set the cookie. On plain HTTP its name differs: some browsers drop Secure cookies there."""
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        token,
        max_age=lifetime_s,
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
