"""The application: every operation as a route, the live feed, and the few paths made by hand.

`make_app` composes it for a core; what it needs while it runs is in `Gateway`.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from detent import views
from detent.errors import DetentError, Forbidden, NotFound
from detent.gateway import strict_json
from detent.gateway.auth import Tokens
from detent.gateway.bulk_route import lines_route
from detent.gateway.evidence_routes import evidence_routes
from detent.gateway.feed_hub import FeedHub
from detent.gateway.feed_routes import events_route, feed_socket
from detent.gateway.login_routes import login_route, logout_route
from detent.gateway.mcp_route import Load, McpEndpoint, mcp_route_for
from detent.gateway.middleware import OPEN, AuthenticationMiddleware, RequestContext
from detent.gateway.openapi import ALWAYS, openapi, responses
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import (
    OperationRoute,
    ScopedRoute,
    check_scopes_declared,
    encode,
)
from detent.gateway.path_router import Paths
from detent.operations import OPERATIONS, installation
from detent.operations.context import Core
from detent.operations.registry import Scope
from detent.operations.stats import PROBE

#: What `/health` and `/ready` tell everybody is looked at this often at most.
VERDICT_S = 1.0
METRICS = "/metrics"


class MetricsPage(Protocol):
    """What is shown at `/metrics`; it reads the gateway's own counts from `requests`."""

    media_type: str
    requests: Counter[tuple[str, str, str]]

    def page(self) -> bytes: ...


class Gateway:
    """The parts of a running gateway."""

    def __init__(
        self, core: Core, watcher: MetricsPage | None = None, tools: Load | None = None
    ) -> None:
        self.core = core
        self.watcher = watcher
        self.limits = strict_json.Limits.of(core.settings)
        self.tokens = Tokens(core.store)
        self.dispatcher = OperationDispatcher(core, self.tokens)
        self.tools = McpEndpoint(self.dispatcher, self.limits, tools)
        self.hub: FeedHub | None = None
        self._verdict = "ok"
        self._judged_at = self._tried_at = float("-inf")
        self._fault: DetentError | None = None

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        assert self.hub is not None
        await self.hub.start()
        try:
            yield
        finally:
            self.hub.stop()
            await self.tools.join()
            await self.dispatcher.work(self.hub.join)

    def stop_feeds(self) -> None:
        """End the connections that would never end by themselves. Called on the event loop."""
        self.tools.stop()
        if self.hub is not None:
            self.hub.stop()

    # -- open paths ------------------------------------------------------------------------

    async def health(self, _: Request, __: RequestContext) -> ASGIApp:
        """One word for everybody; the reasons are behind the door."""
        if time.monotonic() - self._judged_at > VERDICT_S:
            self._judged_at = time.monotonic()
            self._verdict = await self.dispatcher.work(self._judge)
        return Response(encode({"status": self._verdict}), media_type=strict_json.JSON)

    def _judge(self) -> str:
        try:
            return installation.verdict(self.core).verdict.value
        except DetentError:
            return "unhealthy"

    async def ready(self, _: Request, __: RequestContext) -> ASGIApp:
        """Whether the store takes writes, tried at most once a second."""
        if time.monotonic() - self._tried_at > VERDICT_S:
            self._tried_at = time.monotonic()
            self._fault = await self.dispatcher.work(self._try_to_write)
        if self._fault is not None:
            raise self._fault
        return Response(encode({"status": "ready"}), media_type=strict_json.JSON)

    async def metrics(self, _: Request, context: RequestContext) -> ASGIApp:
        """What Prometheus reads: about all projects, so that a token of one does not do."""
        if context.principal is not None and context.caller.project is not None:
            raise Forbidden(
                f"{context.caller.name} may see project {context.caller.project!r} alone"
            )
        if self.watcher is None:
            raise NotFound("This gateway counts nothing.")
        page = await self.dispatcher.work(self.watcher.page)
        return Response(page, media_type=self.watcher.media_type)

    def _try_to_write(self) -> DetentError | None:
        """A small write, with everything that a commit takes; why it failed."""
        try:
            with self.core.store.write() as tx:
                tx.put_rows("system_state", {PROBE: {"at": views.utc(tx.now())}})
        except DetentError as error:
            return error
        return None


def make_app(
    core: Core,
    hosts: Collection[str],
    watcher: MetricsPage | None = None,
    tools: Load | None = None,
) -> tuple[ASGIApp, Gateway]:
    """The application behind its door, and its parts."""
    gateway = Gateway(core, watcher, tools)
    app = FastAPI(
        title="detent",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=gateway.running,
    )
    app.router.routes.extend(_routes(gateway, app))
    open_paths = (*OPEN, METRICS) if core.settings.gateway_metrics_open else OPEN
    check_scopes_declared(app.routes, open_paths)
    body_timeout_s = core.settings.gateway_body_timeout_ms / 1_000
    door = AuthenticationMiddleware(
        app, Paths(app.routes), gateway.tokens, hosts, open_paths, body_timeout_s
    )
    if watcher is not None:
        watcher.requests = door.requests
    return door, gateway


def _routes(gateway: Gateway, app: FastAPI) -> list[Any]:
    hub = gateway.hub = FeedHub(gateway.core.store, gateway.tokens)
    dispatcher, limits = gateway.dispatcher, gateway.limits
    return [
        lines_route(dispatcher, limits),
        *(OperationRoute(each, dispatcher, limits) for each in OPERATIONS.values()),
        *evidence_routes(dispatcher),
        events_route(hub),
        feed_socket(hub),
        mcp_route_for(gateway.tools),
        login_route(dispatcher, limits),
        logout_route(dispatcher, gateway.tokens),
        _open("/health", gateway.health, "How all is going, in one word."),
        _open("/ready", gateway.ready, "Whether requests can be served."),
        _metrics(gateway),
        _document(app),
    ]


def _open(path: str, handler: Any, summary: str) -> ScopedRoute:
    return ScopedRoute(
        "GET",
        path,
        handler,
        None,
        response_model=dict[str, str],
        operation_id=path.strip("/") + "_path",
        summary=summary,
        responses=responses(("wrong_host", "internal", "unavailable")),
        openapi_extra={"security": []},
        tags=["system"],
    )


def _metrics(gateway: Gateway) -> ScopedRoute:
    text = {200: {"description": "Metrics", "content": {"text/plain": {"schema": {}}}}}
    return ScopedRoute(
        "GET",
        METRICS,
        gateway.metrics,
        None if gateway.core.settings.gateway_metrics_open else Scope.READ,
        response_class=Response,
        operation_id="metrics",
        summary="Metrics for Prometheus.",
        description="Needs the scope `read`, unless `gateway.metrics_open` is set on loopback.",
        responses={**responses((*ALWAYS, "not_found")), **text},
        tags=["system"],
    )


def _document(app: FastAPI) -> ScopedRoute:
    made: list[bytes] = []

    async def serve(_: Request, __: RequestContext) -> ASGIApp:
        if not made:
            made.append(encode(openapi(app, version("detent"))))
        return Response(made[0], media_type=strict_json.JSON)

    return ScopedRoute(
        "GET",
        "/openapi.json",
        serve,
        Scope.READ,
        response_model=dict[str, Any],
        operation_id="openapi",
        summary="This document.",
        responses=responses(ALWAYS),
        tags=["system"],
    )
