"""The MCP tools and resources: which operations they are, and tasks as MCP and A2A tasks.

Does not import the library of the protocol.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import anyio
from pydantic import BaseModel, Field, ValidationError, create_model

from detent.kernel.state_mapping import McpStatus, View, seen
from detent.operations.input_models import invalid, model_for
from detent.operations.registry import OPERATIONS, Operation, Scope

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

#: Operations that are MCP tools, besides all operations with the scope `run`.
OFFERED = (
    "submit_task",
    "list_tasks",
    "show_task",
    "why",
    "subtasks",
    "task_events",
    "task_logs",
    "task_evidence",
    "inbox",
    "status",
    "run_task",
    "cancel_task",
    "retry_task",
    "dismiss_task",
    "answer_task",
    "answer_job",
    "accept_task",
    "reject_task",
)
LONGEST_WAIT_S = 300
#: The poll interval of the waiting tool: it starts short and doubles up to the second value.
FIRST_POLL_S, MAX_POLL_S = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as an MCP tool."""

    name: str
    scope: Scope
    description: str
    reads: bool
    destroys: bool
    model: type[BaseModel]
    names: tuple[str, ...]
    #: Whether the response is one task.
    shows_task: bool = False
    submits: bool = False

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.model.model_json_schema()

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The validated arguments; those of a submission are checked when it is submitted."""
        if self.submits:
            return dict(given)
        try:
            found = self.model.model_validate(dict(given))
        except ValidationError as error:
            raise invalid(error, self.names) from None
        return {name: getattr(found, name) for name in found.model_fields_set}

    async def call(self, ask: Ask, given: Mapping[str, Any], stopping: anyio.Event) -> Any:
        arguments = self.arguments(given)
        if self.name == WAIT:
            return await _wait(ask, stopping, **arguments)
        return await ask(self.name, arguments)


def _tool(operation: Operation) -> Tool:
    return Tool(
        operation.name,
        operation.scope,
        operation.summary,
        operation.method == "GET",
        operation.method == "DELETE" or operation.name.startswith("cancel"),
        model_for(operation, operation.parameters, strict=True),
        tuple(each.name for each in operation.parameters),
        operation.name == "show_task",
        operation.request is not None,
    )


@cache
def tools_for(scopes: frozenset[Scope]) -> Mapping[str, Tool]:
    """By name, the tools that these scopes allow."""
    chosen = [
        each for each in OPERATIONS.values() if each.name in OFFERED or each.scope is Scope.RUN
    ]
    every = [*map(_tool, chosen), _wait_tool()]
    return {each.name: each for each in every if scopes & {each.scope, Scope.ADMIN}}


# ---- waiting ---------------------------------------------------------------------------------

WAIT = "wait_task"


def _wait_tool() -> Tool:
    shown = OPERATIONS["show_task"]
    inherited = model_for(shown, shown.parameters, strict=True)
    model = create_model(
        "WaitTaskBody",
        __base__=inherited,
        timeout_s=(
            int,
            Field(30, ge=0, le=LONGEST_WAIT_S, description="The maximum wait, in seconds"),
        ),
    )
    description = "Wait until a task has ended or needs a person, then show it."
    names = ("task_id", "timeout_s")
    return Tool(WAIT, Scope.READ, description, True, False, model, names, shows_task=True)


async def _wait(ask: Ask, stopping: anyio.Event, task_id: str, timeout_s: int = 30) -> Any:
    until_s = time.monotonic() + timeout_s
    pause_s = FIRST_POLL_S
    while True:
        task = await ask("show_task", {"task_id": task_id})
        left_s = until_s - time.monotonic()
        if view_of(task).mcp is not McpStatus.WORKING or left_s <= 0 or stopping.is_set():
            return task
        with anyio.move_on_after(min(pause_s, left_s)):
            await stopping.wait()
        pause_s = min(pause_s * 2, MAX_POLL_S)


# ---- tasks in other protocols ----------------------------------------------------------------


def view_of(task: Mapping[str, Any]) -> View:
    return seen(task["lifecycle"], task["state"], task["blocked_by"], task["retries_left"])


def mcp_meta(task: Mapping[str, Any]) -> dict[str, Any]:
    """A task as an MCP task and as an A2A task, for clients that support them."""
    view = view_of(task)
    return {
        "io.modelcontextprotocol/related-task": {"taskId": task["id"]},
        "detent/mcp-task": {
            "taskId": task["id"],
            "status": view.mcp.value,
            "statusMessage": _message(task),
            "createdAt": task["created_at"],
            "lastUpdatedAt": task["state_at"],
            "ttl": None,
        },
        "detent/a2a-task": {
            "id": task["id"],
            "contextId": task["root_id"],
            "status": {"state": view.a2a.value, "timestamp": task["state_at"]},
        },
    }


def _message(task: Mapping[str, Any]) -> str:
    reason = task["blocked_by"]
    return task["state"] if reason is None else f"{task['state']}: {reason}"


# ---- resources -------------------------------------------------------------------------------


class Resource(NamedTuple):
    """A resource of a task: its URI and operation; `plain` if only the response's text is sent."""

    uri: str
    operation: str
    description: str
    media_type: str = "application/json"
    plain: bool = False


RESOURCES = (
    Resource("detent://tasks/{task_id}", "show_task", "A task and its state"),
    Resource("detent://tasks/{task_id}/why", "why", "Why the task is not running"),
    Resource("detent://tasks/{task_id}/events", "task_events", "The events of the task"),
    Resource("detent://tasks/{task_id}/evidence", "task_evidence", "The evidence of its runs"),
    Resource(
        "detent://tasks/{task_id}/logs",
        "task_logs",
        "The output of its last run",
        "text/plain",
        True,
    ),
)


def resource_from(uri: str) -> tuple[Resource, dict[str, Any]] | None:
    """The resource with this URI, and the arguments of its operation; None if there is none."""
    for each in RESOURCES:
        pattern = re.escape(each.uri).replace(re.escape("{task_id}"), "([A-Za-z0-9._:-]{1,200})")
        found = re.fullmatch(pattern, uri)
        if found is not None:
            return each, {"task_id": found[1]}
    return None
