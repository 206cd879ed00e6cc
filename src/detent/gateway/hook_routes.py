"""The routes that receive deliveries of forges; the signature of a delivery is its credential."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext, first_values
from detent.gateway.openapi import WITH_BODY, Documentation
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute, encode
from detent.operations.forge_deliveries import HOOKS, receive
from detent.operations.forge_hook import Hook

PATHS = tuple(hook.path for hook in HOOKS.values())
ERRORS = ("wrong_host", "internal", "unavailable", "unauthorized", "invalid", "not_found")


def hook_routes(dispatcher: OperationDispatcher, limits: strict_json.Limits) -> list[ScopedRoute]:
    """One route for each forge."""
    return [_route(dispatcher, limits, hook) for hook in HOOKS.values()]


def _route(dispatcher: OperationDispatcher, limits: strict_json.Limits, hook: Hook) -> ScopedRoute:
    async def accept(request: Request, _: RequestContext) -> ASGIApp:
        body = await strict_json.read_body(request, limits.size)
        strict_json.must_be(request, strict_json.JSON)
        headers = first_values(request.scope)
        received = await dispatcher.run_in_thread(
            lambda: receive(dispatcher.core, hook, headers, body)
        )
        return Response(encode(received), 202, media_type=strict_json.JSON)

    documentation = Documentation(
        operation_id=f"{hook.forge}_hook",
        summary=f"Receive a delivery of {hook.forge}'s webhook.",
        description="Needs no token: the delivery must be signed with the webhook's secret.",
        tag="webhooks",
        body={"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        status=202,
        response_type=dict[str, str],
        errors=(*ERRORS, *WITH_BODY),
        public=True,
    )
    return ScopedRoute("POST", hook.path, accept, None, documentation)
