"""Webhook deliveries: event filters, bodies as CloudEvents or Slack messages, signatures. Pure."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from detent import views
from detent.kernel.events import SYSTEM
from detent.kernel.wait_kinds import ANSWERED, PEOPLE, PERMISSION
from detent.operations.webhooks import KEY_PREFIX, TEST, Webhook, message_id
from detent.store.codec import to_json
from detent.store.types import Delivery, LoggedEvent

CLOUDEVENTS = "application/cloudevents+json; charset=utf-8"
JSON = "application/json"
SOURCE = "/detent"
#: An event with a longer body is sent without its data.
LONGEST_BODY = 65_536
LONGEST_LINE = 3_000
#: Reasons of a block that need a person.
ASKING = (*PEOPLE, "budget", "error")
#: Events that always need a person.
ENDED_BADLY = ("task_failed", "task_timed_out", "task_budget_exceeded")

Row = Mapping[str, Any]


# ---- filters ---------------------------------------------------------------------------------


def wants(hook: Webhook, event: Row, work: Row | None) -> bool:
    """Whether an event passes the filters of a webhook; `work` is the row of its task or job.

    A webhook that a token of one project created gets events of this project only, also after a
    token of all projects has changed its filters.
    """
    if hook.project not in (None, event["project"]):
        return False
    if hook.projects and event["project"] not in hook.projects:
        return False
    if hook.events and event["name"] not in hook.events:
        return False
    if hook.intents and (work is None or work["intent"] not in hook.intents):
        return False
    return hook.only is None or needs_person(event, work)


def needs_person(event: Row, work: Row | None) -> bool:
    """Whether an event needs a person.

    Waits count for jobs without a task, and requests for permission always: they block no task.
    """
    if event["name"] == "wait_begun":
        kind = (event["data"] or {}).get("kind")
        return kind == PERMISSION or ((work or {}).get("alone", False) and kind in ANSWERED)
    if event["name"] == "task_blocked":
        return (event["data"] or {}).get("reason") in ASKING
    return event["name"] == "task_ready" or event["name"] in ENDED_BADLY


# ---- bodies ----------------------------------------------------------------------------------


def body(hook: Webhook, logged: LoggedEvent, event: Row, work: Row | None) -> str:
    """The body of a delivery in the webhook's format."""
    if hook.shape == "slack":
        return to_json({"text": line(event, work)[:LONGEST_LINE]})
    whole = {
        **envelope(f"{hook.id}-{logged.position}", event["name"], event["at"]),
        "subject": event["subject"] or event["stream"],
        "project": event["project"],
        "position": str(event["position"]),
        "data": event,
    }
    text = to_json(whole)
    if len(text) <= LONGEST_BODY:
        return text
    return to_json({**whole, "data": {**event, "data": None, "cut": True}})


def test_body(hook: Webhook, row: Delivery, now: int) -> str:
    """The body of a test delivery."""
    text = f"This is a test of detent's webhook {hook.name}."
    if hook.shape == "slack":
        return to_json({"text": escaped(text)})
    return to_json(
        {**envelope(message_id(hook, row), TEST, views.utc(now)), "data": {"text": text}}
    )


def envelope(ident: str, name: str, at: str) -> dict[str, Any]:
    """The attributes of every CloudEvent."""
    return {
        "specversion": "1.0",
        "id": ident,
        "source": SOURCE,
        "type": f"detent.{name}",
        "time": at,
        "datacontenttype": JSON,
    }


def media_type(hook: Webhook) -> str:
    if hook.shape == "a2a":
        return "application/a2a+json"
    return JSON if hook.shape == "slack" else CLOUDEVENTS


def line(event: Row, work: Row | None) -> str:
    """One line for a chat, in which user text is escaped."""
    describe = DESCRIPTIONS.get(event["name"])
    words = describe(event["data"] or {}) if describe else event["name"].replace("_", " ")
    if event["stream"] == SYSTEM:
        limit = event["subject"] or "limits"
        return f"*{escaped(limit)}* {escaped(words)} ({escaped(event['actor'])})"
    title = (work or {}).get("title") or event["stream"]
    place = f"{event['stream']}, project {event['project']}"
    return f"*{escaped(title)}* {escaped(words)} ({escaped(place)})"


def _blocked(data: Row) -> str:
    detail = data.get("detail") or {}
    if data.get("reason") in PEOPLE and detail.get("text"):
        return _asks(detail)
    return f"is blocked: {data.get('reason')}"


def _dismissed(data: Row) -> str:
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"no longer waits for its subtask {data['task_id']}, which was dismissed{reason}"


def _waits(data: Row) -> str:
    detail = data.get("detail") or {}
    return _asks(detail) if detail.get("text") else f"waits: {data.get('kind')}"


def _asks(detail: Row) -> str:
    options = ", ".join(map(str, detail.get("options") or ()))
    return f"asks: {detail['text']}" + (f" [{options}]" if options else "")


def _paused(data: Row) -> str:
    until = "" if data.get("until") is None else f" until {views.utc(data['until'])}"
    return f"is paused{until}: {data.get('reason') or 'no reason given'}"


DESCRIPTIONS: Mapping[str, Callable[[Row], str]] = {
    "pause_set": _paused,
    "pause_ended": lambda data: f"is no longer paused ({data.get('outcome')})",
    "task_ready": lambda _: "is ready for review",
    "task_blocked": _blocked,
    "wait_begun": _waits,
    "task_failed": lambda data: f"failed: {data.get('error') or 'see its runs'}",
    "task_timed_out": lambda _: "timed out",
    "task_budget_exceeded": lambda _: "exceeded its budget",
    "task_completed": lambda _: "is completed",
    "task_accepted": lambda _: "was accepted",
    "subtask_dismissed": _dismissed,
    "subtask_handled": lambda data: f"has dealt with the failure of its subtask {data['task_id']}",
    "task_cancelled": lambda data: f"was cancelled: {data.get('reason')}",
}


def escaped(text: str) -> str:
    """Text with the control characters of Slack escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ---- signatures ------------------------------------------------------------------------------


def signed(ident: str, now: int, text: str, keys: Iterable[str]) -> dict[str, str]:
    """The headers of the Standard Webhooks scheme, with one signature for each valid key."""
    at = str(now // 1_000_000)
    signatures: Sequence[str] = [signature(key, f"{ident}.{at}.{text}") for key in keys]
    return {
        "webhook-id": ident,
        "webhook-timestamp": at,
        "webhook-signature": " ".join(signatures),
    }


def signature(key: str, content: str) -> str:
    secret = base64.b64decode(key.removeprefix(KEY_PREFIX))
    made = hmac.new(secret, content.encode(), hashlib.sha256).digest()
    return "v1," + base64.b64encode(made).decode()
