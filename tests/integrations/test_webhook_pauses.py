"""The pause of a webhook after a failure, and how a person ends it."""

import pytest

from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.operations import webhooks as ops
from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.testing.clock import VirtualClock
from tests.gateway.installation import until
from tests.integrations.hooks import listed, put, submit
from tests.integrations.receiver import Receiver


@pytest.mark.parametrize("ask", ["put", "test", "replay", "create"])
def test_a_person_ends_the_pause_after_retry_after(
    core: Core, clock: VirtualClock, receiver: Receiver, ask: str
) -> None:
    put(core, receiver)
    dispatcher = Dispatcher(core, "here")
    receiver.answers = [(503, {"Retry-After": "86400"}, b"")]
    try:
        submit(core, "t")
        dispatcher.work(clock.now)
        until(lambda: listed(core)["error"] is not None)
        submit(core, "u")
        clock.advance(seconds=60)
        dispatcher.work(clock.now)
        if ask == "create":
            ops.delete_webhook(core, OWNER, name="chat")
        if ask in ("put", "create"):
            put(core, receiver)
            submit(core, "v")
        elif ask == "test":
            ops.try_webhook(core, OWNER, name="chat")
        else:
            ops.replay_webhook(core, OWNER, name="chat", after=0)
        assert len(receiver.received) == 1

        def arrives() -> bool:
            dispatcher.work(clock.now)
            return len(receiver.received) > 1

        until(arrives)
    finally:
        dispatcher._pool.shutdown()
