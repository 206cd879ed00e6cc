"""Tasks of detent as tasks of the Agent2Agent protocol (A2A) 1.0, and its messages as input. Pure.

A skill is an intent that is offered to other agents. The data part of a message is the payload; a
text is the only required text field of the payload. Questions make a task input-required, and the
next message answers one. The result and the evidence of a task are its artifacts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from detent.errors import Invalid
from detent.integrations.question_answers import as_text, by_label, is_yes_or_no
from detent.kernel.state_mapping import A2aState

VERSION = "1.0"
#: The tags of tasks: of all that A2A has created, and of those with a context of the client.
TAG, CONTEXT_TAG = "a2a", "a2a-context:"
#: In the metadata of a message: the skill of a new task, the question that is answered.
SKILL, QUESTION = "skill", "question"
YES, NO = ("true", "yes"), ("false", "no")
ENDED = (A2aState.COMPLETED, A2aState.FAILED, A2aState.CANCELED)

Row = Mapping[str, Any]


class Part(msgspec.Struct, rename="camel", kw_only=True):
    """A part of a message; detent reads texts and data."""

    text: str | None = None
    data: Any = msgspec.UNSET
    raw: str | None = None
    url: str | None = None


class Message(msgspec.Struct, rename="camel", kw_only=True):
    """A message of a client."""

    message_id: str
    parts: list[Part]
    role: str = "ROLE_USER"
    task_id: str | None = None
    context_id: str | None = None
    metadata: dict[str, Any] = {}


# ---- tasks -----------------------------------------------------------------------------------


def state_of(outcome: Row) -> A2aState:
    """The state of a task. What waits for another person is `working` for this client."""
    mapped = A2aState(outcome["elsewhere"]["a2a"])
    if mapped in ENDED:
        return mapped
    if outcome.get("questions"):
        return A2aState.INPUT_REQUIRED
    return A2aState.WORKING if mapped is A2aState.INPUT_REQUIRED else mapped


def is_interrupted(outcome: Row) -> bool:
    """Whether the client has to act, or the task has ended."""
    return state_of(outcome) in (*ENDED, A2aState.INPUT_REQUIRED)


def context_of(outcome: Row) -> str:
    """The context: that of the client, or the id of the task."""
    given = [each for each in outcome["tags"] if each.startswith(CONTEXT_TAG)]
    return str(given[0].removeprefix(CONTEXT_TAG) if given else outcome["id"])


def task(outcome: Row, base: str) -> dict[str, Any]:
    """The whole task; `base` is the address of the gateway."""
    return {
        "id": outcome["id"],
        "contextId": context_of(outcome),
        "status": status(outcome),
        "artifacts": artifacts(outcome, base),
        "metadata": {SKILL: outcome["intent"]},
    }


def status(outcome: Row) -> dict[str, Any]:
    """The state, since when, and the question, the progress or the error as a message."""
    found: dict[str, Any] = {"state": state_of(outcome).value, "timestamp": outcome["state_at"]}
    text, metadata = _report(outcome)
    if text:
        found["message"] = {
            "messageId": f"{outcome['id']}-{outcome['version']}",
            "role": "ROLE_AGENT",
            "taskId": outcome["id"],
            "contextId": context_of(outcome),
            "parts": [{"text": text}],
            "metadata": metadata,
        }
    return found


def _report(outcome: Row) -> tuple[str, dict[str, Any]]:
    state = state_of(outcome)
    if state is A2aState.INPUT_REQUIRED:
        first = outcome["questions"][0]
        return first["text"], {QUESTION: first["key"], "options": first["options"]}
    if state is A2aState.FAILED:
        return outcome["error"] or outcome["state"], {"reason": outcome["error_class"]}
    if outcome["ending"] is not None:
        return "", {}
    if outcome["blocked_by"] is not None:
        return f"blocked by {outcome['blocked_by']}", {}
    progress = outcome["progress"]
    return outcome["note"] or "", {} if progress is None else {"progress": progress}


def artifacts(outcome: Row, base: str) -> list[dict[str, Any]]:
    """The result and the evidence. The address of evidence needs a token with the scope read."""
    found = [_evidence(each, base) for each in outcome["evidence"]]
    if state_of(outcome) is A2aState.COMPLETED and outcome["result"] is not None:
        result = outcome["result"]
        part = {"text": result} if isinstance(result, str) else {"data": result}
        found.append({"artifactId": "result", "name": "result", "parts": [part]})
    return found


def _evidence(row: Row, base: str) -> dict[str, Any]:
    path = f"/api/runs/{quote(row['run_id'])}/evidence/{quote(row['file'])}"
    part = {"url": base + path, "filename": row["file"], "mediaType": row["media_type"]}
    about = {"sha256": row["sha256"], "size": row["size"]}
    ident = f"{row['run_id']}/{row['file']}"
    return {"artifactId": ident, "name": row["file"], "parts": [part], "metadata": about}


def updates(before: Row, after: Row, base: str) -> Iterator[dict[str, Any]]:
    """The events of a stream for what has changed: new artifacts, then the status."""
    about = {"taskId": after["id"], "contextId": context_of(after)}
    known = [each["artifactId"] for each in artifacts(before, base)]
    for each in artifacts(after, base):
        if each["artifactId"] not in known:
            yield {"artifactUpdate": {**about, "artifact": each, "lastChunk": True}}
    old, new = status(before), status(after)
    if (old["state"], _report(before)) != (new["state"], _report(after)):
        yield {"statusUpdate": {**about, "status": new}}


# ---- messages --------------------------------------------------------------------------------


def skill_of(message: Message, metadata: Row, offered: Sequence[Row]) -> Row:
    """The offered intent that a message names; without a name, the only one that is offered."""
    named = message.metadata.get(SKILL) or metadata.get(SKILL)
    found = [each for each in offered if named in (None, each["name"])]
    if len(found) == 1:
        return found[0]
    names = [each["name"] for each in offered]
    raise Invalid(
        f"metadata.{SKILL} of the message must be the id of a skill of the agent card, "
        f"not {named!r:.80}.",
        field=f"message.metadata.{SKILL}",
        given=named,
        allowed=names,
    )


def payload_of(message: Message, arguments: Row) -> Mapping[str, Any]:
    """The payload in a message: its data part, or its text as the only required text field."""
    value = _content(message)
    if isinstance(value, Mapping):
        return value
    properties = arguments.get("properties")
    if properties is None:
        return {"text": value}
    required = arguments.get("required", ())
    if len(required) == 1 and properties[required[0]].get("type") == "string":
        return {required[0]: value}
    raise Invalid(
        f"This skill needs a data part with the fields {', '.join(properties) or '(none)'}, "
        "not a text.",
        field="message.parts",
        allowed=tuple(properties),
    )


def question_of(message: Message, outcome: Row) -> Row | None:
    """The open question that a message answers: the one that it names, or the oldest."""
    key = named_question(message)
    open_ones = [each for each in outcome["questions"] if key in (None, each["key"])]
    return open_ones[0] if open_ones else None


def named_question(message: Message) -> str | None:
    """The key of the question that a message names."""
    key = message.metadata.get(QUESTION)
    return None if key is None else str(key)


def answer_to(question: Row | None, message: Message) -> Any:
    """The answer in a message: a text that is an option, any other text, or a data part."""
    value = _content(message)
    if question is None or not isinstance(value, str):
        return value
    if is_yes_or_no(question) and value.strip().lower() in (*YES, *NO):
        return value.strip().lower() in YES
    return by_label(question).get(value, value)


def _content(message: Message) -> Any:
    """The data of a message, or its texts together; other parts are refused before."""
    data = [each.data for each in message.parts if each.data is not msgspec.UNSET]
    texts = [each.text for each in message.parts if each.text is not None]
    if len(data) > 1 or not (data or texts):
        raise Invalid("The message must have a text part or one data part.", field="message.parts")
    return data[0] if data else "\n".join(texts)


def has_files(message: Message) -> bool:
    """Whether a message has parts that detent does not read."""
    return any(each.raw is not None or each.url is not None for each in message.parts)


# ---- the agent card --------------------------------------------------------------------------


def agent_card(offered: Sequence[Row], base: str, version: str) -> dict[str, Any]:
    """The card: where the agent is, what it can do, and how clients authenticate."""
    interface = {
        "url": f"{base}/a2a",
        "protocolBinding": "JSONRPC",
        "protocolVersion": VERSION,
    }
    return {
        "name": "detent",
        "description": "Runs tasks durably. Each skill is one type of task.",
        "version": version,
        "supportedInterfaces": [interface],
        "capabilities": {"streaming": True, "pushNotifications": True},
        "defaultInputModes": ["application/json", "text/plain"],
        "defaultOutputModes": ["application/json", "text/plain"],
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "skills": [_skill(each) for each in offered],
    }


def _skill(offered: Row) -> dict[str, Any]:
    fields = as_text(offered["arguments"])
    return {
        "id": offered["name"],
        "name": offered["name"],
        "description": f"{offered['description']}\n\nJSON Schema of the data part: {fields}",
        "tags": ["detent"],
    }
