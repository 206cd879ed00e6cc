"""The calls of Slack's Web API that detent uses, and what their errors mean.

No call is repeated here. A call that may have been carried out raises `Uncertain`; the caller then
checks first whether the message exists.
"""

from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web import SlackResponse

from detent.errors import DetentError
from detent.integrations.slack.slack_blocks import Message

TIMEOUT_S = 10
#: The name of the metadata by which detent finds its messages.
METADATA = "detent_item"
PAGE_SIZE = 200
#: The maximum number of pages of a channel's history that are searched for a message.
MAX_PAGES = 25
DEFAULT_RETRY_AFTER_S = 30

#: Errors of the token: nothing works until a person has replaced it.
TOKEN_ERRORS = frozenset(
    {
        *("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"),
        *("missing_scope", "not_allowed_token_type", "no_permission", "org_login_required"),
        "team_access_not_granted",
    }
)
#: Errors of one channel; the others still work.
CHANNEL_ERRORS = frozenset(
    {"channel_not_found", "not_in_channel", "is_archived", "restricted_action", "is_inactive"}
)
#: The message was deleted in Slack, or it cannot be changed any more.
GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
HINTS = {
    "missing_scope": "Add the scopes of the app manifest, and install the app again.",
    "not_in_channel": "Invite the app to the channel: /invite @detent",
    "channel_not_found": "Correct slack.channels; invite the app to a private channel.",
    "is_archived": "Unarchive the channel, or remove it from slack.channels.",
}
TOKEN_HINT = "Install the app again, and store its new bot token where slack.bot_token says."


class SlackError(DetentError):
    """Slack refused a call."""

    default_code = "refused"

    def __init__(self, error: str, where: str, hint: str = "") -> None:
        self.error = error
        super().__init__(
            f"Slack refused {where}: {error}", hint=hint, details={"slack_error": error}
        )


class TokenRefused(SlackError):
    """Slack does not accept the token."""


class ChannelRefused(SlackError):
    """The app cannot use a channel."""


class RateLimited(SlackError):
    """Too many calls; `retry_after_s` says when the next one is accepted."""

    def __init__(self, where: str, retry_after_s: int) -> None:
        super().__init__("ratelimited", where, f"Slack accepts it again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class Uncertain(DetentError):
    """The call failed without a response that says whether it was carried out."""

    default_code = "unavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="The next attempt first checks whether it was carried out.")


def web_client(url: str, token: str | None = None) -> WebClient:
    """A client that repeats nothing: a repeated message would be a second message."""
    base = url if url.endswith("/") else f"{url}/"
    return WebClient(token=token, base_url=base, timeout=TIMEOUT_S, retry_handlers=[])


class SlackApi:
    """A connection with one bot token."""

    def __init__(self, client: WebClient) -> None:
        self.client = client

    def who_am_i(self) -> dict[str, Any]:
        """The workspace and the user of the token."""
        return self._call(self.client.auth_test)

    def channel(self, channel: str) -> dict[str, Any]:
        """A channel that the app can see."""
        return self._call(self.client.conversations_info, channel=channel)

    def post(self, channel: str, key: str, message: Message) -> str:
        """Post a message; returns its timestamp, by which Slack identifies it."""
        made = self._call(self.client.chat_postMessage, **_posted(channel, key, message))
        return str(made["ts"])

    def update(self, channel: str, ts: str, key: str, message: Message) -> None:
        self._call(self.client.chat_update, **_shown(channel, key, message), ts=ts)

    def delete(self, channel: str, ts: str) -> None:
        self._call(self.client.chat_delete, channel=channel, ts=ts)

    def find(self, channel: str, key: str, oldest: str) -> str | None:
        """The timestamp of the message with this key that was posted since then, if any."""
        for message in self._history(channel, oldest):
            metadata = message.get("metadata") or {}
            payload = metadata.get("event_payload") or {}
            if metadata.get("event_type") == METADATA and payload.get("key") == key:
                return str(message["ts"])
        return None

    def tell(self, channel: str, user: str, text: str) -> None:
        """Show a message to one user only."""
        self._call(self.client.chat_postEphemeral, channel=channel, user=user, text=text)

    def open_dialog(self, trigger_id: str, view: dict[str, Any]) -> None:
        self._call(self.client.views_open, trigger_id=trigger_id, view=view)

    def _history(self, channel: str, oldest: str) -> Iterator[dict[str, Any]]:
        cursor = ""
        for _ in range(MAX_PAGES):
            found = self._call(
                self.client.conversations_history,
                channel=channel,
                oldest=oldest,
                limit=PAGE_SIZE,
                cursor=cursor or None,
                include_all_metadata=True,
            )
            yield from found["messages"]
            cursor = (found.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return

    def _call(self, method: Callable[..., SlackResponse], /, **arguments: Any) -> dict[str, Any]:
        name = getattr(method, "__name__", "a call").replace("_", ".", 1)
        try:
            found = method(**arguments)
        except SlackApiError as error:
            raise _meaning(error, name, arguments) from None
        except (OSError, HTTPException, SlackRequestError, ValueError) as error:
            raise Uncertain(f"Slack: {name}: no response: {type(error).__name__}") from None
        document: dict[str, Any] = dict(found.data) if isinstance(found.data, dict) else {}
        return document


def _posted(channel: str, key: str, message: Message) -> dict[str, Any]:
    return {**_shown(channel, key, message), "unfurl_links": False, "unfurl_media": False}


def _shown(channel: str, key: str, message: Message) -> dict[str, Any]:
    return {
        "channel": channel,
        "text": message.text,
        "blocks": message.blocks,
        "parse": "none",
        "link_names": False,
        "metadata": {"event_type": METADATA, "event_payload": {"key": key}},
    }


def _meaning(failed: SlackApiError, method: str, arguments: dict[str, Any]) -> DetentError:
    response = failed.response
    if response.status_code == 429:
        given = {name.lower(): value for name, value in response.headers.items()}
        text = str(given.get("retry-after", ""))
        known = text.isascii() and text.isdigit()
        return RateLimited(method, int(text[:6]) if known else DEFAULT_RETRY_AFTER_S)
    if response.status_code != 200 or not isinstance(response.data, dict):
        return Uncertain(f"Slack: {method}: status {response.status_code}")
    error = str(response.data.get("error", "unknown_error"))
    if error in ("internal_error", "fatal_error", "service_unavailable", "request_timeout"):
        return Uncertain(f"Slack: {method}: {error}")
    if error == "ratelimited":
        return RateLimited(method, DEFAULT_RETRY_AFTER_S)
    if error in TOKEN_ERRORS:
        return TokenRefused(error, method, HINTS.get(error, TOKEN_HINT))
    if error in CHANNEL_ERRORS:
        where = f"{method} in {arguments.get('channel')}"
        return ChannelRefused(error, where, HINTS.get(error, ""))
    more = (response.data.get("response_metadata") or {}).get("messages") or ()
    return SlackError(error, method, "; ".join(map(str, more)))
