"""Logging in: a browser exchanges a single-use code for a cookie; the token itself stays away."""

from inspect import Parameter
from typing import Annotated

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from detent import views
from detent.errors import Forbidden
from detent.gateway import strict_json
from detent.gateway.auth import COOKIE, SECURE_COOKIE, Tokens
from detent.gateway.middleware import LOGIN, RequestContext
from detent.gateway.openapi import ALWAYS, WITH_BODY, responses
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute, encode
from detent.operations import schemas
from detent.operations.input_models import invalid
from detent.operations.registry import Scope
from detent.operations.sessions import exchange, log_out


class LoginBody(BaseModel):
    """The code of a one-time link."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1, max_length=200, examples=["detent_…"])]


def login_route(dispatcher: OperationDispatcher, limits: strict_json.Limits) -> ScopedRoute:
    """The one route whose credential stands in its body: whoever has no code is nobody."""

    async def log_in(request: Request, _: RequestContext) -> ASGIApp:
        body = await strict_json.read_body(request, limits.size)
        strict_json.must_be(request, strict_json.JSON)
        try:
            code = LoginBody.model_validate(strict_json.decode(body, limits)).code
        except ValidationError as error:
            raise invalid(error, ("code",)) from None
        secret, row, lifetime_s = await dispatcher.work(lambda: exchange(dispatcher.core, code))
        shown = {name: row.get(name) for name in schemas.Token.__annotations__}
        response = Response(encode(views.shown(shown)), 200, media_type=strict_json.JSON)
        _set_cookie(response, request, secret, lifetime_s)
        return response

    return ScopedRoute(
        "POST",
        LOGIN,
        log_in,
        None,
        [Parameter("body", Parameter.KEYWORD_ONLY, annotation=Annotated[LoginBody, Body()])],
        response_model=schemas.Token,
        operation_id="log_in",
        summary="Exchange a single-use code for a session's cookie.",
        responses=responses((*ALWAYS, *WITH_BODY, "invalid")),
        openapi_extra={"security": []},
        tags=["login"],
    )


def logout_route(dispatcher: OperationDispatcher, tokens: Tokens) -> ScopedRoute:
    async def end(request: Request, context: RequestContext) -> ASGIApp:
        if context.principal is None:
            raise Forbidden("There is no session to end.")
        key = context.principal.key
        await dispatcher.work(lambda: log_out(dispatcher.core, key))
        tokens.forget()
        response = Response(status_code=204)
        _set_cookie(response, request, "", 0)
        return response

    return ScopedRoute(
        "POST",
        "/api/logout",
        end,
        Scope.READ,
        response_class=Response,
        status_code=204,
        operation_id="log_out",
        summary="End the session and take its cookie back.",
        responses=responses(ALWAYS),
        tags=["login"],
    )


def _set_cookie(response: Response, request: Request, token: str, lifetime_s: int) -> None:
    """Some browsers drop Secure cookies on plain loopback HTTP, so that the name differs there."""
    secure = request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        token,
        max_age=lifetime_s,
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
