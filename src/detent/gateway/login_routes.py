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
from detent.gateway.engine_bridge import Bridge
from detent.gateway.middleware import LOGIN, Visit
from detent.gateway.openapi import ALWAYS, WITH_BODY, responses
from detent.gateway.operation_routes import GuardedRoute, encode
from detent.operations import schemas
from detent.operations.input_models import invalid
from detent.operations.registry import Scope
from detent.operations.sessions import exchange, log_out


class LoginBody(BaseModel):
    """The code of a one-time link."""

    model_config = ConfigDict(extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1, max_length=200, examples=["detent_…"])]


def login_route(bridge: Bridge, limits: strict_json.Limits) -> GuardedRoute:
    """The one route whose credential stands in its body: whoever has no code is nobody."""

    async def log_in(request: Request, _: Visit) -> ASGIApp:
        body = await strict_json.read_body(request, limits.size)
        strict_json.must_be(request, strict_json.JSON)
        try:
            code = LoginBody.model_validate(strict_json.decode(body, limits)).code
        except ValidationError as error:
            raise invalid(error, ("code",)) from None
        secret, row, lifetime_s = await bridge.work(lambda: exchange(bridge.core, code))
        shown = {name: row.get(name) for name in schemas.Token.__annotations__}
        response = Response(encode(views.shown(shown)), 200, media_type=strict_json.JSON)
        _set_cookie(response, request, secret, lifetime_s)
        return response

    return GuardedRoute(
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


def logout_route(bridge: Bridge, tokens: Tokens) -> GuardedRoute:
    async def end(request: Request, visit: Visit) -> ASGIApp:
        if visit.visitor is None:
            raise Forbidden("There is no session to end.")
        key = visit.visitor.key
        await bridge.work(lambda: log_out(bridge.core, key))
        tokens.forget()
        response = Response(status_code=204)
        _set_cookie(response, request, "", 0)
        return response

    return GuardedRoute(
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
