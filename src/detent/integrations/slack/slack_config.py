"""The settings of Slack: tokens, channels with their filters, and the users of detent.

Reads the settings and resolves secrets, nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from detent.errors import Misconfigured
from detent.operations.tokens import NAME
from detent.operations.waiting_work import KINDS, REFUSED
from detent.redaction import resolve
from detent.settings import Settings

CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{2,20}")
USER_ID = re.compile(r"[UW][A-Z0-9]{2,20}")
#: The kinds of items that can be shown in a channel. A refused submission has no task.
SHOWN_KINDS = tuple(each for each in KINDS if each != REFUSED)
FILTERS = ("project", "intent", "kind")
CHANNEL_FORM = "Write the id and filters of a channel: 'C0123ABCD project=web kind=review'."


class Channel(NamedTuple):
    """A channel, and which items concern it. An empty filter matches everything."""

    id: str
    projects: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()
    kinds: tuple[str, ...] = SHOWN_KINDS

    def concerns(self, row: Mapping[str, Any], kind: str | None = None) -> bool:
        """Whether a task or a job concerns the channel; with a kind, also as an item of it."""
        return (
            (not self.projects or row["project"] in self.projects)
            and (not self.intents or row["intent"] in self.intents)
            and (kind is None or kind in self.kinds)
        )


class SlackConfig(NamedTuple):
    """What the settings say about Slack."""

    url: str
    bot_token: str
    #: Empty without Socket Mode.
    app_token: str
    #: Empty if the gateway receives nothing from Slack.
    signing_secret: str
    channels: Mapping[str, Channel]
    #: By the id of a Slack user, the name of a token of detent.
    users: Mapping[str, str]
    #: The address of the dashboard, for links; empty: no links.
    dashboard: str

    @property
    def receives(self) -> bool:
        """Whether people can answer from Slack; else the messages have no buttons."""
        return bool(self.app_token or self.signing_secret)


def configured(settings: Settings) -> bool:
    return bool(settings.slack_bot_token)


def slack_config(settings: Settings) -> SlackConfig:
    """The checked settings, with the secrets that they name."""
    if not settings.slack_bot_token:
        raise Misconfigured(
            "Slack is not configured.",
            setting="slack.bot_token",
            hint="Set slack.bot_token to env:NAME or file:PATH, and slack.channels.",
        )
    found = [_channel(each) for each in settings.slack_channels]
    if not found:
        raise Misconfigured("slack.channels is empty.", setting="slack.channels", hint=CHANNEL_FORM)
    return SlackConfig(
        settings.slack_url,
        resolve(settings.slack_bot_token, "slack.bot_token"),
        _optional(settings.slack_app_token, "slack.app_token"),
        _optional(settings.slack_signing_secret, "slack.signing_secret"),
        _unique([(each.id, each) for each in found], "slack.channels"),
        _unique([_user(each) for each in settings.slack_users], "slack.users"),
        settings.slack_dashboard_url.rstrip("/"),
    )


def _optional(reference: str, setting: str) -> str:
    return resolve(reference, setting) if reference else ""


def _unique(pairs: Sequence[tuple[str, Any]], setting: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Misconfigured(f"{setting} has {name} twice.", setting=setting)
        found[name] = value
    return found


def _channel(text: str) -> Channel:
    name, *filters = text.split()
    if not CHANNEL_ID.fullmatch(name):
        raise Misconfigured(
            f"slack.channels: {name!r} is not the id of a channel.",
            setting="slack.channels",
            hint=f"{CHANNEL_FORM} The details of a channel in Slack show its id.",
        )
    given: dict[str, tuple[str, ...]] = {}
    for each in filters:
        key, equals, values = each.partition("=")
        if key not in FILTERS or not equals or not all(values.split(",")):
            raise Misconfigured(
                f"slack.channels: {each!r} is not a filter.",
                setting="slack.channels",
                hint=f"Filters are {', '.join(f'{name}=…' for name in FILTERS)}. {CHANNEL_FORM}",
            )
        given[key] = tuple(values.split(","))
    kinds = given.get("kind", SHOWN_KINDS)
    for kind in kinds:
        if kind not in SHOWN_KINDS:
            raise Misconfigured(
                f"slack.channels: {kind!r} is not a kind of item.",
                setting="slack.channels",
                hint=f"Kinds are {', '.join(SHOWN_KINDS)}.",
            )
    return Channel(name, given.get("project", ()), given.get("intent", ()), kinds)


def _user(text: str) -> tuple[str, str]:
    user, _, name = text.partition("=")
    if USER_ID.fullmatch(user) and NAME.fullmatch(name):
        return user, name
    raise Misconfigured(
        f"slack.users: {text!r} is not USER=NAME.",
        setting="slack.users",
        hint="Write the member id of a Slack user and the name of a token of detent, such as "
        "U0123ABCD=ada. The profile in Slack shows the member id; `detent tokens` lists names.",
    )
