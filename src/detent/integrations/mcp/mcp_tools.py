"""The operations that are tools and resources of MCP, and tasks in the terms of MCP and A2A.

Does not import the library of the protocol.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import Parameter
from typing import Any, NamedTuple

import anyio

from detent.integrations.poll import poll
from detent.kernel.state_mapping import A2aState, McpStatus, View
from detent.operations.input_models import Field, InputModel, fields_for, model_name
from detent.operations.parameters import Input
from detent.operations.registry import OPERATIONS, CallOperation, Operation, Scope
from detent.trace_propagation import HEADER

#: Operations that agents and people use through MCP. What a run may do is a tool by itself.
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
    "list_resources",
    "reset_resource",
    "run_task",
    "cancel_task",
    "retry_task",
    "dismiss_task",
    "answer_task",
    "answer_job",
    "accept_task",
    "reject_task",
    "send_event",
    "review",
    "review_file",
    "review_between",
    "mark_viewed",
    "run_transcript",
    "task_comments",
    "add_comment",
    "reply_to_comment",
    "resolve_comment",
    "reopen_comment",
    "save_draft",
    "delete_draft",
    "publish_drafts",
    "request_changes",
    "variants",
    "choose_variant",
    "assign_task",
    "snooze_task",
)
LONGEST_WAIT_S = 300


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation as a tool."""

    name: str
    scope: Scope
    description: str
    reads: bool
    destroys: bool
    model: InputModel
    #: Whether the answer is one task.
    shows_task: bool = False
    submits: bool = False

    @property
    def schema(self) -> Mapping[str, Any]:
        return self.model.schema()

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What was given, if it fits; a submission's shape is checked when it is submitted."""
        if self.submits:
            return dict(given)
        return self.model.read(given)

    async def call(
        self, call: CallOperation, given: Mapping[str, Any], stopping: anyio.Event
    ) -> Any:
        arguments = self.arguments(given)
        if self.name == WAIT:
            return await _wait(call, stopping, **arguments)
        return await call(self.name, arguments)


def _tool(operation: Operation) -> Tool:
    return Tool(
        operation.name,
        operation.scope,
        operation.summary,
        operation.method == "GET",
        operation.method == "DELETE" or operation.name.startswith("cancel"),
        InputModel(model_name(operation), fields_for(operation, operation.parameters)),
        operation.name == "show_task",
        operation.request is not None,
    )


@cache
def tools_for(scopes: frozenset[Scope]) -> Mapping[str, Tool]:
    """The tools that these scopes allow, by name."""
    chosen = [
        each for each in OPERATIONS.values() if each.name in OFFERED or each.scope is Scope.RUN
    ]
    every = [*map(_tool, chosen), _wait_tool()]
    return {each.name: each for each in every if scopes & {each.scope, Scope.ADMIN}}


@dataclass(frozen=True, slots=True)
class McpClient:
    """A connected client: the function that calls operations for it, and its scopes."""

    call: CallOperation
    scopes: frozenset[Scope]
    #: Set when the server stops, so that waiting tools return.
    stopping: anyio.Event = field(default_factory=anyio.Event)

    def tools(self) -> Mapping[str, Tool]:
        return tools_for(self.scopes)

    def may(self, *scopes: Scope) -> bool:
        """Whether the client has all of these scopes."""
        return Scope.ADMIN in self.scopes or self.scopes.issuperset(scopes)


# ---- waiting ---------------------------------------------------------------------------------

WAIT = "wait_task"


def _wait_tool() -> Tool:
    shown = OPERATIONS["show_task"]
    timeout = Field(
        Parameter("timeout_s", Parameter.KEYWORD_ONLY, annotation=int, default=30),
        Input("Wait at most this many seconds", least=0, most=LONGEST_WAIT_S),
    )
    model = InputModel("WaitTaskBody", (*fields_for(shown, shown.parameters), timeout))
    description = "Wait until a task has ended or needs a person, and show its state then."
    return Tool(WAIT, Scope.READ, description, True, False, model, shows_task=True)


async def _wait(
    call: CallOperation, stopping: anyio.Event, task_id: str, timeout_s: int = 30
) -> Any:
    async def show() -> Any:
        return await call("show_task", {"task_id": task_id})

    def needs_attention(task: Mapping[str, Any]) -> bool:
        return view_of(task).mcp is not McpStatus.WORKING

    return await poll(show, needs_attention, stopping, timeout_s)


def traceparent_in(meta: Mapping[str, Any] | None) -> str | None:
    """The trace context in the metadata of a tool call."""
    given = (meta or {}).get(HEADER)
    return given if isinstance(given, str) else None


# ---- tasks in the terms of other protocols ---------------------------------------------------


def view_of(task: Mapping[str, Any]) -> View:
    seen = task["elsewhere"]
    return View(seen["other"], McpStatus(seen["mcp"]), A2aState(seen["a2a"]))


def mcp_meta(task: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a result: the task as a task of MCP and as one of A2A."""
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
    """A read of one task under an address of its own; `plain` if its text alone is shown."""

    uri: str
    operation: str
    description: str
    media_type: str = "application/json"
    plain: bool = False


RESOURCES = (
    Resource("detent://tasks/{task_id}", "show_task", "One task and its state"),
    Resource("detent://tasks/{task_id}/why", "why", "Why it is not running"),
    Resource(
        "detent://tasks/{task_id}/events", "task_events", "The events of the task and its jobs"
    ),
    Resource(
        "detent://tasks/{task_id}/evidence", "task_evidence", "The evidence files of its runs"
    ),
    Resource(
        "detent://tasks/{task_id}/logs",
        "task_logs",
        "The output of its last run",
        "text/plain",
        True,
    ),
)


def resource_from(uri: str) -> tuple[Resource, dict[str, Any]] | None:
    """The resource at an address, and the arguments of its operation."""
    for each in RESOURCES:
        pattern = re.escape(each.uri).replace(re.escape("{task_id}"), "([A-Za-z0-9._:-]{1,200})")
        found = re.fullmatch(pattern, uri)
        if found is not None:
            return each, {"task_id": found[1]}
    return None
