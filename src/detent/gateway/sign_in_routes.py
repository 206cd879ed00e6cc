"""Routes with which people sign in through an OpenID Connect provider. They are public.

`GET /api/login/oidc` sends a browser to the provider, and the provider sends it back to
`/api/login/oidc/callback`. The state, the nonce and the verifier are in a cookie meanwhile, so that
only the browser that began can end it. A command line adds its port and its own challenge: the
browser is then sent to that port on the person's machine, with a code that the command line
exchanges for a token at `POST /api/login/cli`.
"""

import base64
import logging
import re
import secrets
from inspect import Parameter
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp

from detent import views
from detent.errors import DetentError, Forbidden, Invalid, NotFound
from detent.gateway import strict_json
from detent.gateway.identity_provider import Attempt, IdentityProvider
from detent.gateway.login_routes import MAX_LOGIN_BYTES, set_session_cookie
from detent.gateway.middleware import (
    CLI_LOGIN,
    METHODS_OF_SIGN_IN,
    SIGN_IN,
    SIGNED_IN,
    RequestContext,
)
from detent.gateway.openapi import ALWAYS, WITH_BODY, Documentation, JsonBody
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute, encode
from detent.operations import schemas
from detent.operations.input_models import Field, InputModel
from detent.operations.parameters import Input
from detent.operations.users import Identity, offer_login, redeem_login, sign_in

log = logging.getLogger("detent.gateway")

COOKIE, SECURE_COOKIE = "detent-sign-in", "__Host-detent-sign-in"
#: How long a person has to sign in at the provider.
ATTEMPT_S = 600
_PORT = re.compile("[0-9]{1,5}")
_OPAQUE = re.compile(r"[A-Za-z0-9_-]{20,128}")
#: The reason in the fragment of the page's address, if signing in has failed.
REASONS = {"no_role": "no-role", "unavailable": "unavailable", "misconfigured": "misconfigured"}


class CommandLine(NamedTuple):
    """Where a command line waits for its code, and what its requests are recognised by."""

    port: int
    state: str
    challenge: str


def sign_in_routes(
    dispatcher: OperationDispatcher, limits: strict_json.Limits
) -> list[ScopedRoute]:
    """The routes; without a provider they answer that there is none."""
    routes = SignInRoutes(dispatcher, limits)
    return [
        ScopedRoute("GET", METHODS_OF_SIGN_IN, routes.methods, None, _METHODS),
        ScopedRoute("GET", SIGN_IN, routes.begin, None, _BEGIN),
        ScopedRoute("GET", SIGNED_IN, routes.end, None, _END),
        ScopedRoute("POST", CLI_LOGIN, routes.redeem, None, _REDEEM),
    ]


class SignInRoutes:
    """The handlers of the routes."""

    def __init__(self, dispatcher: OperationDispatcher, limits: strict_json.Limits) -> None:
        settings = dispatcher.core.settings
        self._dispatcher, self._limits = dispatcher, limits
        self._provider = IdentityProvider(settings) if settings.oidc_issuer else None

    async def methods(self, _: Request, __: RequestContext) -> ASGIApp:
        """How people can sign in."""
        label = None if self._provider is None else self._provider.label
        return Response(encode({"oidc": label}), media_type=strict_json.JSON)

    async def begin(self, request: Request, _: RequestContext) -> ASGIApp:
        """Send the browser to the provider, with what this attempt has drawn in a cookie."""
        provider = self._required()
        line = _command_line(request)
        attempt = Attempt(*(secrets.token_urlsafe(32) for _ in Attempt._fields))
        try:
            url = await provider.authorization_url(attempt, self._url(request) + SIGNED_IN)
        except DetentError as error:
            return self._failed(request, error)
        response = RedirectResponse(url, 303)
        self._remember(response, request, _packed(attempt, line), ATTEMPT_S)
        return response

    async def end(self, request: Request, _: RequestContext) -> ASGIApp:
        """Take the browser back from the provider, and give it a session."""
        provider = self._required()
        try:
            attempt, line = self._attempt(request)
            redirect_uri = self._url(request) + SIGNED_IN
            who = await provider.identify(request.query_params["code"], attempt, redirect_uri)
            response = await self._entered(request, who, line)
        except DetentError as error:
            response = self._failed(request, error)
        self._remember(response, request, "", 0)
        return response

    async def _entered(self, request: Request, who: Identity, line: CommandLine | None) -> Response:
        core = self._dispatcher.core
        if line is not None:
            code = await self._dispatcher.run_in_thread(
                lambda: offer_login(core, who, line.challenge)
            )
            query = urlencode({"code": code, "state": line.state})
            return RedirectResponse(f"http://127.0.0.1:{line.port}/?{query}", 303)
        secret, lifetime_s = await self._dispatcher.run_in_thread(lambda: sign_in(core, who))
        response = RedirectResponse(self._url(request) + "/", 303)
        set_session_cookie(response, secret, lifetime_s, secure=self._is_secure(request))
        return response

    async def redeem(self, request: Request, _: RequestContext) -> ASGIApp:
        """Give the command line the token of the person who has signed in."""
        body = await strict_json.read_object(request, self._limits, MAX_LOGIN_BYTES)
        given = CLI_BODY.read(body)
        core = self._dispatcher.core
        token, row = await self._dispatcher.run_in_thread(
            lambda: redeem_login(core, given["code"], given["verifier"])
        )
        shown: dict[str, Any] = views.shown(
            {name: row[name] for name in ("name", "project", "expires_at")}
        )
        return Response(encode({"token": token, **shown}), media_type=strict_json.JSON)

    # -- the browser's part ----------------------------------------------------------------

    def _required(self) -> IdentityProvider:
        if self._provider is None:
            raise NotFound(
                "This gateway has no provider for signing in.",
                hint="Use a one-time link: `detent dashboard`; or a token.",
            )
        return self._provider

    def _url(self, request: Request) -> str:
        """The address of this gateway for browsers; the header Host was checked before."""
        given = self._dispatcher.core.settings.oidc_url.rstrip("/")
        return given or f"http://{request.headers['host']}"

    def _is_secure(self, request: Request) -> bool:
        return self._url(request).startswith("https://")

    def _remember(self, response: Response, request: Request, text: str, lifetime_s: int) -> None:
        """Set the cookie of the attempt. It is Lax: the provider's page sends the browser back."""
        secure = self._is_secure(request)
        response.set_cookie(
            SECURE_COOKIE if secure else COOKIE,
            text,
            max_age=lifetime_s,
            path="/",
            secure=secure,
            httponly=True,
            samesite="lax",
        )

    def _attempt(self, request: Request) -> tuple[Attempt, CommandLine | None]:
        """The attempt of this browser, if the provider has ended the same one."""
        kept = request.cookies.get(SECURE_COOKIE if self._is_secure(request) else COOKIE, "")
        query = request.query_params
        try:
            attempt, line = _unpacked(kept)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            raise Forbidden("This browser has not begun to sign in, or took too long.") from None
        if not secrets.compare_digest(query.get("state", "").encode(), attempt.state.encode()):
            raise Forbidden("The response of the provider belongs to another attempt.")
        if "code" not in query:
            raise Forbidden(f"The provider has refused: {query.get('error', 'unknown')[:100]}.")
        return attempt, line

    def _failed(self, request: Request, error: DetentError) -> Response:
        """Send the browser to the sign-in page with a reason; the log of the program has more."""
        log.warning("A person could not sign in: %s", error.message)
        reason = REASONS.get(error.code, "failed")
        return RedirectResponse(f"{self._url(request)}/#sign-in={reason}", 303)


def _command_line(request: Request) -> CommandLine | None:
    """The command line that asked for this, if one did."""
    query = request.query_params
    if "port" not in query:
        return None
    port, state, challenge = (query.get(name, "") for name in CommandLine._fields)
    fits = _PORT.fullmatch(port) is not None and 1_024 <= int(port) <= 65_535
    if not fits or not _OPAQUE.fullmatch(state) or not _OPAQUE.fullmatch(challenge):
        raise Invalid(
            "The parameters port, state and challenge must be those of `detent login`.",
            field="port",
            given=port,
        )
    return CommandLine(int(port), state, challenge)


#: The content of the cookie. The browser may send anything.
_Packed = tuple[Attempt, CommandLine | None]


def _packed(attempt: Attempt, line: CommandLine | None) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((attempt, line))).decode()


def _unpacked(text: str) -> _Packed:
    found: _Packed = msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Packed)
    return found


# ---- documentation ---------------------------------------------------------------------------


def _text(name: str, meaning: str, longest: int) -> Field:
    given = Input(meaning, "…", shortest=1, longest=longest)
    return Field(Parameter(name, Parameter.KEYWORD_ONLY, annotation=str), given)


CLI_BODY = InputModel(
    "CliLoginBody",
    [
        _text("code", "The code that the browser brought to the command line", 200),
        _text("verifier", "The verifier of the challenge that the command line sent", 128),
    ],
)
_METHODS = Documentation(
    operation_id="sign_in_methods",
    summary="How people can sign in at this gateway.",
    tag="login",
    response_type=schemas.SignInMethods,
    errors=("wrong_host", "internal", "unavailable"),
    public=True,
)
_BEGIN = Documentation(
    operation_id="begin_sign_in",
    summary="Send a browser to the OpenID Connect provider.",
    tag="login",
    responses={303: {"description": "To the provider"}},
    errors=("wrong_host", "internal", "unavailable", "not_found", "invalid"),
    public=True,
)
_END = Documentation(
    operation_id="end_sign_in",
    summary="Take a browser back from the OpenID Connect provider.",
    tag="login",
    responses={303: {"description": "To the dashboard, or to the command line of the person"}},
    errors=("wrong_host", "internal", "unavailable", "not_found"),
    public=True,
)
_REDEEM = Documentation(
    operation_id="redeem_login",
    summary="Exchange the code of a command line for the token of a person.",
    tag="login",
    body=JsonBody(model=CLI_BODY),
    response_type=schemas.Login,
    errors=(*ALWAYS, *WITH_BODY, "invalid"),
    public=True,
)
