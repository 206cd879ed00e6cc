"""Messages for Slack: escaped, within Slack's limits, and accepted by Slack's own models."""

from typing import Any

import pytest

from detent.errors import Misconfigured
from detent.integrations.slack.slack_blocks import (
    MAX_SECTION,
    dialog,
    escaped,
    open_message,
    plain,
    settled_message,
)
from detent.integrations.slack.slack_config import Channel, slack_config
from detent.integrations.slack.slack_items import (
    Details,
    Item,
    Offer,
    Reference,
    Settlement,
    reference_from,
)
from detent.redaction import remember
from detent.settings import Settings
from verification.slack import slack_rules as rules
from verification.slack.slack_rules import Refusal

NASTY = "<!channel> <@U1> & *b* \x07 " + "日本語 " * 2_000
REFERENCE = Reference("t" * 60, 7, "q" * 200, "d" * 64)


def item(kind: str, title: str = NASTY, **detail: Any) -> Item:
    row = {
        "id": "t1",
        "project": "web",
        "intent": "build",
        "priority": "P2",
        "title": title,
        "blocked_detail": detail,
        "spent": 1_500_000,
        "budget": 1_000_000,
    }
    return Item("t1@1", kind, row, "t1", 7, "7")


def review(**more: Any) -> dict[str, Any]:
    files = [{"path": NASTY, "added": 1, "removed": 2}] * 500
    shown: dict[str, Any] = {"rounds": 1, "cost_usd": 0.5, "open_comments": 2}
    check = {"checker": "check", "accept": False}
    return {**shown, "diff": {"sha256": "a" * 64, "files": files}, "check": check, **more}


OFFERS = [
    *(Offer(each, REFERENCE) for each in ("accept", "answer", "cancel", "raise", "reject")),
    *(Offer(f"send:task_event_{at}", REFERENCE) for at in range(30)),
    *(Offer(each, REFERENCE) for each in ("retry", "dismiss")),
]


@pytest.mark.parametrize("kind", ["question", "confirmation", "review", "budget", "failure"])
def test_slack_accepts_a_message_about_anything(kind: str) -> None:
    detail: dict[str, Any] = {"text": NASTY, "options": [NASTY] * 300, "other": True}
    details = Details(OFFERS, review(result=NASTY) if kind == "review" else None)
    made = open_message(item(kind, **detail), details, "https://d.example", buttons=True)
    rules.check_message({"text": made.text, "blocks": made.blocks})
    shown = str(made.blocks)
    assert "<!channel>" not in made.text + shown
    assert "\x07" not in made.text + shown
    settled = settled_message(made.blocks[0]["text"]["text"], Settlement("Answered", "ada", NASTY))
    rules.check_message({"text": settled.text, "blocks": settled.blocks})
    assert "<@U1>" not in str(settled)


@pytest.mark.parametrize("action", ["answer", "reject", "raise"])
@pytest.mark.parametrize("options", [(), [NASTY] * 300])
def test_slack_accepts_the_dialogs(action: str, options: list[Any]) -> None:
    rules.check_view(dialog(action, "m" * 1_000, options))


def test_a_text_is_cut_at_a_character_and_not_in_an_entity() -> None:
    assert escaped("a<b>&c", 100) == "a&lt;b&gt;&amp;c"
    for longest in range(5, 40):
        found = escaped("<&>" * 20, longest)
        assert len(found) <= longest
        assert set(found.replace("&lt;", "").replace("&gt;", "").replace("&amp;", "")) == {"…"}
    assert len(escaped("&" * 9_999, MAX_SECTION)) <= MAX_SECTION
    assert plain(" a\n b ", 10) == "a b"
    assert plain("", 10) == "-"
    assert plain("abcdef", 4) == "abc…"


def test_the_label_of_a_button_does_not_change_the_direction_of_the_text() -> None:
    assert plain("a\u202eb\x00c", 75) == "a b c"


def test_known_secrets_are_redacted() -> None:
    remember(["correct-horse-battery"])
    asked = item("question", "Deploy", text="Is it correct-horse-battery?")
    made = open_message(asked, Details([]), "", buttons=True)
    assert "Is it [secret]?" in str(made.blocks)


def test_a_reference_survives_slack() -> None:
    assert reference_from(REFERENCE.encoded()) == REFERENCE
    assert len(REFERENCE.encoded()) < 2_000


# ---- what the local Slack refuses --------------------------------------------------------------

TEXT = {"type": "plain_text", "text": "ok"}
SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "ok"}}
BUTTON = {"type": "button", "action_id": "a", "text": TEXT}


@pytest.mark.parametrize(
    "blocks",
    [
        [SECTION] * 51,
        [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}],
        [{"type": "section", "text": {"type": "mrkdwn", "text": ""}}],
        [{"type": "section"}],
        [{"type": "nothing"}],
        [{"type": "actions", "elements": [BUTTON, BUTTON]}],
        [{"type": "actions", "elements": [{**BUTTON, "text": {**TEXT, "text": "x" * 76}}]}],
        [{"type": "actions", "elements": [{**BUTTON, "value": "x" * 2_001}]}],
        [{"type": "actions", "elements": [{**BUTTON, "action_id": str(at)} for at in range(26)]}],
        [{**SECTION, "block_id": "same"}, {**SECTION, "block_id": "same"}],
        "text",
    ],
)
def test_the_local_slack_refuses_blocks_that_slack_refuses(blocks: Any) -> None:
    rules.check_blocks([SECTION, {"type": "actions", "elements": [BUTTON]}], 50)
    with pytest.raises(Refusal, match="invalid_blocks"):
        rules.check_blocks(blocks, 50)


@pytest.mark.parametrize(
    ("method", "body", "error"),
    [
        ("chat.explode", b"{}", "unknown_method"),
        ("chat.postMessage", b"{", "invalid_json"),
        ("chat.postMessage", b'{"text": "x"}', "invalid_arguments"),
        ("chat.postMessage", b'{"channel": "C1", "text": "x", "nonsense": 1}', "invalid_arguments"),
        ("conversations.history", b'{"channel": "C1"}', "invalid_post_type"),
    ],
)
def test_the_local_slack_refuses_wrong_arguments(method: str, body: bytes, error: str) -> None:
    with pytest.raises(Refusal, match=error):
        rules.arguments_of(method, {"content-type": "application/json"}, body)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("", "not_authed"),
        ("Bearer xapp-1", "not_allowed_token_type"),
        ("Bearer xoxb-2", "invalid_auth"),
        ("Bearer xoxb-old", "token_revoked"),
    ],
)
def test_the_local_slack_refuses_wrong_tokens(given: str, error: str) -> None:
    rules.check_token("Bearer xoxb-1", "xoxb-1", (), "xoxb-")
    with pytest.raises(Refusal, match=error):
        rules.check_token(given, "xoxb-1", ("xoxb-old",), "xoxb-")


# ---- settings ----------------------------------------------------------------------------------


def settings(monkeypatch: pytest.MonkeyPatch, **more: Any) -> Settings:
    monkeypatch.setenv("SLACK_TEST_TOKEN", "xoxb-1-secret")
    wanted = {"slack_bot_token": "env:SLACK_TEST_TOKEN", "slack_channels": ("C012ABC",), **more}
    return Settings(**wanted)


def test_channels_and_users_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = ("C012ABC project=web,shop intent=fix kind=review,budget", "G012ABC")
    found = slack_config(
        settings(monkeypatch, slack_channels=channels, slack_users=("U012ABC=ada",))
    )
    first, second = found.channels.values()
    assert first == Channel("C012ABC", ("web", "shop"), ("fix",), ("review", "budget"))
    assert second.concerns({"project": "any", "intent": "any"}, "failure")
    assert not first.concerns({"project": "web", "intent": "fix"}, "failure")
    assert not first.concerns({"project": "web", "intent": "build"})
    assert found.users == {"U012ABC": "ada"}
    assert not found.receives


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"slack_bot_token": ""}, "Slack is not configured"),
        ({"slack_bot_token": "xoxb-1"}, "must be a reference"),
        ({"slack_channels": ()}, "slack.channels is empty"),
        ({"slack_channels": ("general",)}, "'general' is not the id of a channel"),
        ({"slack_channels": ("C012ABC color=red",)}, "'color=red' is not a filter"),
        ({"slack_channels": ("C012ABC project=",)}, "'project=' is not a filter"),
        ({"slack_channels": ("C012ABC kind=refused",)}, "'refused' is not a kind"),
        ({"slack_channels": ("C012ABC", "C012ABC kind=review")}, "C012ABC twice"),
        ({"slack_users": ("ada=U012ABC",)}, "'ada=U012ABC' is not USER=NAME"),
        ({"slack_users": ("U012ABC",)}, "'U012ABC' is not USER=NAME"),
        ({"slack_users": ("U012ABC=ada", "U012ABC=bob")}, "U012ABC twice"),
    ],
)
def test_wrong_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(Misconfigured, match=message):
        slack_config(settings(monkeypatch, **more))
