"""Deliberately broken variants of Slack, by name.

`tests/integrations/test_slack_mutants.py` has the checks that must notice each of them.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from slack_sdk.signature import SignatureVerifier

from detent.integrations.slack import slack_replies
from detent.integrations.slack.slack_api import SlackApi
from detent.integrations.slack.slack_replies import Replies
from detent.operations import registry
from verification.mutant import Patches


def unsigned_request_is_accepted() -> Patches:
    """The signature of a request is not compared."""
    yield patch.object(hmac, "compare_digest", lambda *_: True)


def old_request_is_accepted() -> Patches:
    """The time of a signed request is not compared with the clock."""

    def is_valid(self: SignatureVerifier, body: str, timestamp: str, signature: str) -> bool:
        return self.generate_signature(timestamp=timestamp, body=body) == signature

    yield patch.object(SignatureVerifier, "is_valid", is_valid)


def repeated_click_is_accepted() -> Patches:
    """A click that was carried out before is carried out again."""
    yield patch.object(Replies, "_is_known", lambda *_: False)


def stale_version_is_accepted() -> Patches:
    """A click is not bound to the version that the message showed."""

    def unbound(name: str, *arguments: Any, **given: Any) -> Any:
        return registry.call(name, *arguments, **{**given, "seen": None})

    yield patch.object(slack_replies, "call", unbound)
    yield patch.object(Replies, "_check_version", lambda *_: None)


def message_is_posted_again_after_a_crash() -> Patches:
    """A message that an earlier process has posted is not looked for."""
    yield patch.object(SlackApi, "find", lambda *_: None)


MUTANTS: Mapping[str, Callable[[], Patches]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        unsigned_request_is_accepted,
        old_request_is_accepted,
        repeated_click_is_accepted,
        stale_version_is_accepted,
        message_is_posted_again_after_a_crash,
    )
}
