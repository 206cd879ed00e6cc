"""Fixtures of the webhook tests: an installation with a clock, a receiver and a dispatcher."""

from collections.abc import Iterator

import pytest

from detent.engine import Engine
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.operations.context import Core
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock
from tests.integrations.hooks import SETTINGS
from tests.integrations.receiver import Receiver, receiving


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def core(clock: VirtualClock) -> Core:
    store = MemoryStore(clock)
    return Core(store, Engine(store), SETTINGS, {"dig": {}})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture
def dispatcher(core: Core) -> Dispatcher:
    return Dispatcher(core, "here")
