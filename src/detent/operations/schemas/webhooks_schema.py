"""The shapes of what goes outside: webhooks and their deliveries. Types only."""

from typing_extensions import TypedDict


class Webhook(TypedDict):
    """Where something is sent, what, and how that goes. Keys are never shown again."""

    name: str
    url: str
    shape: str
    events: list[str]
    projects: list[str]
    intents: list[str]
    only: str | None
    paused: bool
    #: Everything up to here was looked at.
    position: int
    pending: int
    dead: int
    delivered: int
    delivered_at: str | None
    failed_at: str | None
    error: str | None
    keys: int
    created_at: str


class Webhooks(TypedDict):
    items: list[Webhook]


class NewWebhook(Webhook):
    """A webhook as it was put; `key` only if it is new, and only this once."""

    key: str | None


class WebhookKey(TypedDict):
    """A new key, shown this once; the old ones sign along until then."""

    name: str
    key: str
    old_until: str


class Delivery(TypedDict):
    """Something that was not delivered yet: `state` is pending, or dead when it is given up."""

    id: str
    state: str
    position: int
    attempts: int
    due_at: str | None
    error: str | None
    body: str


class Deliveries(TypedDict):
    items: list[Delivery]


class TriedWebhook(TypedDict):
    """What was queued to try a webhook; it is gone from its deliveries once it has arrived."""

    name: str
    id: str


class Replayed(TypedDict):
    """From where a webhook goes on, and how many dead deliveries are tried again."""

    name: str
    position: int
    revived: int
