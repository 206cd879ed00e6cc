"""What every test has: asyncio as the one event loop, and properties that try the same cases.

Also a plain setting, however the tests were started: SIGINT is heard, as by a program at a
terminal (one that was started in the background ignores it, and so would its children), and
the width of the terminal is not set.
"""

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.plugins.postgres", "tests.plugins.wheel"]

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("COLUMNS", None)

# No limit of time: what takes long on a busy machine is no fault of what is tried.
settings.register_profile(
    "detent",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("detent")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Garbage collections leave out the thousands of tests and their modules, which stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
