"""What every test has: asyncio as the one event loop, and properties that try the same cases."""

import pytest
from hypothesis import settings

pytest_plugins = ["tests.plugins.postgres"]

settings.register_profile("detent", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("detent")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
