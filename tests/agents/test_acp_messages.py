"""Which messages of an ACP agent reach the conversation, and what is left of invalid ones."""

from typing import Any

import pytest

from detent.worker.runners.acp.conversation import PERMISSION, taken_from

REQUEST = {"id": 1, "method": PERMISSION, "params": {"options": []}}


@pytest.mark.parametrize(
    ("message", "taken"),
    [
        ({"method": "session/update", "params": {}}, None),
        ({}, None),
        ({"id": [1], "result": {}}, None),
        ({"id": True, "result": {}}, None),
        (REQUEST, REQUEST),
        ({"id": "a", "method": "fs/read", "params": "x" * 99}, {"id": "a", "method": "fs/read"}),
        ({"id": 1, "result": {}}, {"id": 1, "result": {}}),
        ({"id": 1, "error": {"code": 5}}, {"id": 1, "error": {"code": 5}}),
        ({"id": 1, "error": "no"}, {"id": 1, "error": {"message": "no"}}),
    ],
)
def test_a_message_is_taken_if_it_can_be_answered_or_awaited(
    message: dict[str, Any], taken: dict[str, Any] | None
) -> None:
    assert taken_from(message) == taken
