"""Tasks of detent in the terms of the MCP extension `io.modelcontextprotocol/tasks`. Pure.

A question of a run becomes a form that the client fills in. An error of the handler is a result of
the tool; a task fails only for other reasons, such as a time limit.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from detent.errors import Invalid
from detent.integrations.question_answers import as_text, by_label, is_yes_or_no
from detent.kernel.retry import FailureClass
from detent.kernel.state_mapping import McpStatus

POLL_INTERVAL_MS = 1_000
INTERNAL_ERROR = -32603
#: The only field of the form of a question; a question with the options yes and no has `CONFIRM`.
ANSWER, CONFIRM = "answer", "confirm"

Outcome = Mapping[str, Any]


def status_of(outcome: Outcome) -> McpStatus:
    """The status of a task. What waits for a person elsewhere is `working` for this client."""
    mapped = McpStatus(outcome["elsewhere"]["mcp"])
    if mapped is McpStatus.FAILED:
        return McpStatus.COMPLETED if _is_tool_error(outcome) else mapped
    if mapped in (McpStatus.COMPLETED, McpStatus.CANCELLED):
        return mapped
    return McpStatus.INPUT_REQUIRED if outcome["questions"] else McpStatus.WORKING


def has_ended(outcome: Outcome) -> bool:
    """Whether the status of a task is final."""
    return status_of(outcome) not in (McpStatus.WORKING, McpStatus.INPUT_REQUIRED)


def task_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields that every message about a task has."""
    return {
        "taskId": outcome["id"],
        "status": status_of(outcome).value,
        "statusMessage": _message(outcome),
        "createdAt": outcome["created_at"],
        "lastUpdatedAt": outcome["state_at"],
        "ttlMs": _lifetime_ms(outcome),
        "pollIntervalMs": POLL_INTERVAL_MS,
    }


def detailed_task(outcome: Outcome) -> dict[str, Any]:
    """A task with its result, its error or its open questions."""
    fields = task_fields(outcome)
    status = status_of(outcome)
    if status is McpStatus.COMPLETED:
        fields["result"] = tool_result(outcome)
    elif status is McpStatus.FAILED:
        fields["error"] = task_error(outcome)
    elif status is McpStatus.INPUT_REQUIRED:
        fields["inputRequests"] = {each["key"]: _form(each) for each in outcome["questions"]}
    return fields


def tool_result(outcome: Outcome) -> dict[str, Any]:
    """The result of the tool call: the result of the job, or the error of its handler."""
    if _is_tool_error(outcome):
        return {"content": [_text(outcome["error"] or "the handler failed")], "isError": True}
    result = outcome["result"]
    made: dict[str, Any] = {"content": [_text(result)], "isError": False}
    return {**made, "structuredContent": result} if isinstance(result, Mapping) else made


def task_error(outcome: Outcome) -> dict[str, Any]:
    """The error of a task whose handler did not return: a JSON-RPC error."""
    reason = outcome["error_class"] or outcome["state"]
    message = outcome["error"] or f"the task ended in the state {outcome['state']}"
    return {"code": INTERNAL_ERROR, "message": message, "data": {"reason": reason}}


def _is_tool_error(outcome: Outcome) -> bool:
    failed: bool = outcome["elsewhere"]["mcp"] == McpStatus.FAILED
    return failed and bool(outcome["error_class"] == FailureClass.ERROR)


def _text(value: Any) -> dict[str, str]:
    return {"type": "text", "text": as_text(value)}


def _message(outcome: Outcome) -> str:
    """The state, why it is blocked, and the progress that its run has reported."""
    parts = [outcome["state"]]
    if outcome["blocked_by"] is not None:
        parts.append(f"blocked by {outcome['blocked_by']}")
    if outcome["ending"] is None and outcome["progress"] is not None:
        parts.append(f"{outcome['progress']:.0%}")
    if outcome["ending"] is None and outcome["note"]:
        parts.append(outcome["note"])
    return ", ".join(parts)


def _lifetime_ms(outcome: Outcome) -> int | None:
    """The time from the creation until retention may delete the task; None while it is live."""
    if outcome["kept_until"] is None:
        return None
    created = datetime.fromisoformat(outcome["created_at"])
    lifetime = datetime.fromisoformat(outcome["kept_until"]) - created
    return max(1, lifetime // timedelta(milliseconds=1))


# ---- questions -------------------------------------------------------------------------------


def _form(question: Mapping[str, Any]) -> dict[str, Any]:
    """The request for an answer: a form with one field."""
    schema = {
        "type": "object",
        "properties": {_field(question): _field_schema(question)},
        "required": [_field(question)],
    }
    params = {"mode": "form", "message": question["text"], "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _field(question: Mapping[str, Any]) -> str:
    return CONFIRM if is_yes_or_no(question) else ANSWER


def _field_schema(question: Mapping[str, Any]) -> dict[str, Any]:
    if is_yes_or_no(question):
        return {"type": "boolean"}
    labels = list(by_label(question))
    if not labels:
        return {"type": "string"}
    if question["other"]:
        return {"type": "string", "description": f"{', '.join(labels)}, or another answer"}
    return {"type": "string", "enum": labels}


def answers_in(outcome: Outcome, responses: Mapping[str, Any]) -> dict[str, Any]:
    """The answers to open questions, by the names of the questions; all others are ignored.

    A declined form leaves its question open: another person can still answer it.
    """
    asked = [each for each in outcome["questions"] if each["key"] in responses]
    given = {each["name"]: _answer(each, responses[each["key"]]) for each in asked}
    return {name: answer[0] for name, answer in given.items() if answer}


def _answer(question: Mapping[str, Any], response: Any) -> tuple[Any, ...]:
    """The answer in the response to a form; none if the form was declined."""
    key, field = question["key"], _field(question)
    action = response.get("action") if isinstance(response, Mapping) else None
    if action in ("decline", "cancel"):
        return ()
    content = response.get("content") if action == "accept" else None
    wanted = bool if field == CONFIRM else str
    if not isinstance(content, Mapping) or not isinstance(content.get(field), wanted):
        raise Invalid(
            f"inputResponses.{key} must have an action, and if it is accept the content "
            f"{{{field!r}: …}} of the form.",
            field=f"inputResponses.{key}",
            given=response,
        )
    value = content[field]
    return (value if wanted is bool else by_label(question).get(value, value),)


# ---- missing arguments -----------------------------------------------------------------------

PRIMITIVE = ("string", "number", "integer", "boolean")


def missing_arguments(
    schema: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """The schemas of missing required arguments, if a form can ask for all of them."""
    properties = schema.get("properties", {})
    missing = {name: properties.get(name, {}) for name in schema.get("required", ())}
    missing = {name: found for name, found in missing.items() if name not in given}
    askable = all(found.get("type") in PRIMITIVE for found in missing.values())
    return missing if askable else {}


def arguments_form(tool: str, missing: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The request for missing arguments of a tool."""
    schema = {"type": "object", "properties": dict(missing), "required": list(missing)}
    message = f"{tool} needs: {', '.join(missing)}"
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}
