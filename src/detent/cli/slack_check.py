"""The check of `detent doctor` on Slack: settings, tokens, channels and users. Changes nothing."""

from collections.abc import Iterator

from detent.errors import DetentError
from detent.operations.tokens import TOKEN, expired, kind_of
from detent.optional_package import optional_package
from detent.settings import Settings
from detent.store.port import ReadTransaction

#: What is wrong, and the remedy.
Fault = tuple[str, str]


def slack_faults(view: ReadTransaction, settings: Settings) -> Iterator[Fault]:
    """What keeps messages and clicks from working; it asks Slack about the token and channels."""
    try:
        with optional_package("slack-bolt", "1.30", extra="slack"):
            from detent.integrations.slack.slack_api import SlackApi, web_client
            from detent.integrations.slack.slack_config import slack_config
        config = slack_config(settings)
        api = SlackApi(web_client(config.url, config.bot_token))
        api.who_am_i()
    except DetentError as error:
        yield error.message, error.hint or ""
        return
    if not config.receives:
        yield (
            "slack.app_token and slack.signing_secret are not set: messages have no buttons",
            "Set slack.app_token for Socket Mode, or slack.signing_secret for HTTP.",
        )
    for channel in config.channels:
        try:
            if not api.channel(channel)["channel"]["is_member"]:
                yield f"the app is not in channel {channel}", "Invite it: /invite @detent"
        except DetentError as error:
            yield error.message, error.hint or ""
    now = view.now()
    tokens = (row for row in view.rows("tokens").values() if kind_of(row) == TOKEN)
    known = {row["name"] for row in tokens if not expired(row, now)}
    for user, name in config.users.items():
        if name not in known:
            yield (
                f"slack.users gives {user} the token {name}, which does not exist",
                f"Create it: detent tokens create {name} --scope review",
            )
    for status in (view.rows("system_state").get("slack_status") or {}).values():
        yield f"{status['error']} ({status['at']})", status["hint"] or "See the log of the keeper."
