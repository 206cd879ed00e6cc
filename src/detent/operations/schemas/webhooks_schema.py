"""Types of webhooks and their deliveries."""

from typing_extensions import TypedDict


class Webhook(TypedDict):
    """A webhook with its filters and delivery status, without its keys."""

    name: str
    url: str
    shape: str
    events: list[str]
    projects: list[str]
    intents: list[str]
    only: str | None
    paused: bool
    #: The position in the log up to which events were processed.
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
    """A webhook; `key` is its signing key if the webhook is new, shown only here."""

    key: str | None


class WebhookKey(TypedDict):
    """A new signing key, shown only here; the old keys sign as well until `old_until`."""

    name: str
    key: str
    old_until: str


class Delivery(TypedDict):
    """A delivery that has not succeeded: `state` is pending, or dead after it was given up."""

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
    """A test delivery; it is deleted from the deliveries after it has succeeded."""

    name: str
    id: str


class Replayed(TypedDict):
    """The position from which a webhook continues, and the number of retried dead deliveries."""

    name: str
    position: int
    revived: int


class TaskWebhook(TypedDict):
    """A webhook of one task, without its secrets."""

    name: str
    task_id: str
    url: str


class TaskWebhooks(TypedDict):
    items: list[TaskWebhook]
