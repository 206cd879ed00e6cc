"""The gateway's ASGI application: a route for every operation, the live feed, and the other paths.

`make_app` builds it for a core; `Gateway` holds the parts that it needs while it runs.
"""

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from detent import views
from detent.errors import DetentError, Forbidden, NotFound, Unavailable
from detent.gateway import strict_json
from detent.gateway.a2a_routes import A2aEndpoint, A2aMethods, a2a_routes
from detent.gateway.auth import Tokens
from detent.gateway.bulk_route import lines_route
from detent.gateway.evidence_routes import evidence_routes
from detent.gateway.feed_hub import FeedHub
from detent.gateway.feed_routes import events_route, feed_socket
from detent.gateway.hook_routes import PATHS, hook_routes
from detent.gateway.login_routes import login_route, logout_route
from detent.gateway.mcp_route import LoadMcpServer, McpEndpoint, mcp_route_for
from detent.gateway.middleware import OPEN, AuthenticationMiddleware, RequestContext, refuse
from detent.gateway.openapi import ALWAYS, Documentation, Json, document
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import (
    OperationRoute,
    ScopedRoute,
    check_scopes_declared,
    encode,
)
from detent.gateway.output_routes import output_route
from detent.gateway.sign_in_routes import sign_in_routes
from detent.gateway.slack_route import (
    PATH as SLACK,
)
from detent.gateway.slack_route import (
    LoadSlackReceiver,
    SlackEndpoint,
    slack_route_for,
)
from detent.operations import OPERATIONS, installation
from detent.operations.context import Core
from detent.operations.registry import Scope
from detent.operations.stats import PROBE

log = logging.getLogger("detent.gateway")

#: `/health` and `/ready` check the installation at most this often.
CHECK_S = 1.0
METRICS = "/metrics"
#: Starlette tries routes in order: operations that are called often come first.
FREQUENT = ("add", "show_task", "submit_task", "submit_job", "show_job", "list_tasks", "enqueue")


class MetricsPage(Protocol):
    """Renders `/metrics`; it reads the gateway's own counts from `requests`."""

    media_type: str
    requests: Counter[tuple[str, str, str]]

    def page(self) -> bytes: ...


class Gateway:
    """The parts of a running gateway."""

    def __init__(
        self,
        core: Core,
        metrics_page: MetricsPage | None = None,
        load_mcp: LoadMcpServer | None = None,
        a2a: A2aMethods | None = None,
        load_slack: LoadSlackReceiver | None = None,
    ) -> None:
        self.core = core
        self.metrics_page = metrics_page
        self.limits = strict_json.Limits.of(core.settings)
        self.tokens = Tokens(core.store, core.settings)
        self.dispatcher = OperationDispatcher(core, self.tokens)
        self.mcp = McpEndpoint(self.dispatcher, self.limits, load_mcp)
        self.a2a = A2aEndpoint(self.dispatcher, self.limits, a2a)
        self.slack = None if load_slack is None else SlackEndpoint(self.dispatcher, load_slack)
        self.hub = FeedHub(core.store, self.tokens)
        self.routes: list[BaseRoute] = []
        self._health = "ok"
        self._health_at = self._ready_at = float("-inf")
        self._fault: str | None = None

    @asynccontextmanager
    async def running(self, _: ASGIApp) -> AsyncIterator[None]:
        """Start and stop what the routes need."""
        await self.hub.start()
        try:
            yield
        finally:
            self.hub.stop()
            await self.mcp.join()
            if self.slack is not None:
                await self.dispatcher.run_in_thread(self.slack.close)
            await self.dispatcher.run_in_thread(self.hub.join)

    def stop_feeds(self) -> None:
        """End the connections that would never end by themselves. Called on the event loop."""
        self.mcp.stop()
        self.a2a.stop()
        self.hub.stop()

    def openapi(self) -> Json:
        """The OpenAPI document of the routes."""
        routes = (each for each in self.routes if isinstance(each, ScopedRoute))
        return document(routes, version("detent"))

    # -- public paths ----------------------------------------------------------------------

    async def health(self, _: Request, __: RequestContext) -> ASGIApp:
        """The health of the installation in one word; the reasons need a token."""
        if time.monotonic() - self._health_at > CHECK_S:
            self._health_at = time.monotonic()
            self._health = await self.dispatcher.run_in_thread(self._check_health)
        return _json({"status": self._health})

    def _check_health(self) -> str:
        try:
            return installation.verdict(self.core).verdict.value
        except DetentError:
            return "unhealthy"

    async def ready(self, _: Request, __: RequestContext) -> ASGIApp:
        """Whether the store accepts writes, tried at most once a second. The reason is logged."""
        if time.monotonic() - self._ready_at > CHECK_S:
            self._ready_at = time.monotonic()
            fault = await self.dispatcher.run_in_thread(self._try_to_write)
            if fault is not None and fault != self._fault:
                log.warning("/ready: the store does not accept writes: %s", fault)
            self._fault = fault
        if self._fault is not None:
            raise Unavailable(
                "The store does not accept writes. The log of the gateway has the reason.",
                retry_after_s=1,
            )
        return _json({"status": "ready"})

    def _try_to_write(self) -> str | None:
        """Commit a small write; the error if it failed."""
        try:
            with self.core.store.write() as tx:
                tx.put_rows("system_state", {PROBE: {"at": views.utc(tx.now())}})
        except DetentError as error:
            return str(error)
        return None

    async def metrics(self, _: Request, context: RequestContext) -> ASGIApp:
        """Metrics for Prometheus. They cover all projects, so a token of one project is refused."""
        if context.principal is not None and context.caller.project is not None:
            raise Forbidden(
                f"The token {context.caller.name} is limited to project "
                f"{context.caller.project!r}; metrics cover all projects."
            )
        if self.metrics_page is None:
            raise NotFound("This gateway has no metrics.")
        page = await self.dispatcher.run_in_thread(self.metrics_page.page)
        return Response(page, media_type=self.metrics_page.media_type)


def make_app(
    core: Core,
    hosts: Collection[str],
    metrics_page: MetricsPage | None = None,
    load_mcp: LoadMcpServer | None = None,
    a2a: A2aMethods | None = None,
    load_slack: LoadSlackReceiver | None = None,
) -> tuple[ASGIApp, Gateway]:
    """The application behind its authentication, and its parts."""
    gateway = Gateway(core, metrics_page, load_mcp, a2a, load_slack)
    gateway.routes = _routes(gateway)
    metrics = (METRICS,) if core.settings.gateway_metrics_open else ()
    slack = (SLACK,) if gateway.slack is not None else ()
    open_paths = (*OPEN, *PATHS, *metrics, *slack)
    check_scopes_declared(gateway.routes, open_paths)
    router = Router(
        gateway.routes, redirect_slashes=False, default=_not_found, lifespan=gateway.running
    )
    body_timeout_s = core.settings.gateway_body_timeout_ms / 1_000
    app = AuthenticationMiddleware(router, gateway.tokens, hosts, open_paths, body_timeout_s)
    if metrics_page is not None:
        metrics_page.requests = app.requests
    return app, gateway


async def _not_found(scope: Connection, receive: Receive, send: Send) -> None:
    error = NotFound(
        f"There is nothing at {scope['path']!r}.",
        hint="Check the path: /openapi.json lists all paths.",
    )
    await refuse(error, scope, receive, send)


def _routes(gateway: Gateway) -> list[BaseRoute]:
    dispatcher, limits, hub = gateway.dispatcher, gateway.limits, gateway.hub
    names = dict.fromkeys((*FREQUENT, *OPERATIONS))
    return [
        *(OperationRoute(OPERATIONS[name], dispatcher, limits) for name in names),
        _public("/health", gateway.health, "The health of the installation, in one word."),
        _public("/ready", gateway.ready, "Whether requests can be served."),
        lines_route(dispatcher, limits),
        *evidence_routes(dispatcher),
        output_route(dispatcher),
        events_route(hub),
        feed_socket(hub),
        mcp_route_for(gateway.mcp),
        *a2a_routes(gateway.a2a),
        *([slack_route_for(gateway.slack)] if gateway.slack is not None else []),
        login_route(dispatcher, limits),
        logout_route(dispatcher, gateway.tokens),
        *hook_routes(dispatcher, limits),
        *sign_in_routes(dispatcher, limits),
        _metrics(gateway),
        _document(gateway),
    ]


def _json(value: Any) -> Response:
    return Response(encode(value), media_type=strict_json.JSON)


def _public(path: str, handler: Any, summary: str) -> ScopedRoute:
    documentation = Documentation(
        operation_id=path.strip("/") + "_path",
        summary=summary,
        tag="system",
        response_type=dict[str, str],
        errors=("wrong_host", "internal", "unavailable"),
        public=True,
    )
    return ScopedRoute("GET", path, handler, None, documentation)


def _metrics(gateway: Gateway) -> ScopedRoute:
    documentation = Documentation(
        operation_id="metrics",
        summary="Metrics for Prometheus.",
        description="Needs the scope `read`, unless `gateway.metrics_open` is set on loopback.",
        tag="system",
        responses={200: {"description": "Metrics", "content": {"text/plain": {"schema": {}}}}},
        errors=(*ALWAYS, "not_found"),
    )
    scope = None if gateway.core.settings.gateway_metrics_open else Scope.READ
    return ScopedRoute("GET", METRICS, gateway.metrics, scope, documentation)


def _document(gateway: Gateway) -> ScopedRoute:
    made: list[bytes] = []

    async def serve(_: Request, __: RequestContext) -> ASGIApp:
        if not made:
            made.append(encode(gateway.openapi()))
        return Response(made[0], media_type=strict_json.JSON)

    documentation = Documentation(
        operation_id="openapi",
        summary="This document.",
        tag="system",
        response_type=dict[str, Any],
    )
    return ScopedRoute("GET", "/openapi.json", serve, Scope.READ, documentation)
