"""The parameters of the methods of A2A. Unknown fields are ignored, as the protocol requires."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from detent.integrations.a2a.a2a_messages import Message

#: All states of the protocol; no task of detent is rejected or waits for authentication.
Status = Literal[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]


class Authentication(msgspec.Struct, rename="camel"):
    """What the receiver of notifications expects in the header `Authorization`."""

    scheme: str
    credentials: str = ""


class PushConfig(msgspec.Struct, rename="camel", kw_only=True):
    """Where notifications about a task are sent."""

    url: str
    id: str = "default"
    task_id: str = ""
    token: str | None = None
    authentication: Authentication | None = None


class Configuration(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """How a message is answered."""

    return_immediately: bool = False
    task_push_notification_config: PushConfig | None = None


class SendParams(msgspec.Struct, kw_only=True):
    """The parameters of both methods that send a message."""

    message: Message
    configuration: Configuration = Configuration()
    metadata: dict[str, Any] = {}


class TaskParams(msgspec.Struct, kw_only=True):
    """The parameters of methods about one task."""

    id: str


class PushParams(msgspec.Struct, rename="camel", kw_only=True):
    """The parameters of methods about the notifications of a task."""

    task_id: str
    id: str = "default"


class ListParams(msgspec.Struct, rename="camel", kw_only=True):
    """The parameters of `ListTasks`."""

    context_id: str | None = None
    status: Status = "TASK_STATE_UNSPECIFIED"
    page_size: int = 50
    page_token: str | None = None
    include_artifacts: bool = False
    status_timestamp_after: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
