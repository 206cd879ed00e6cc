"""What every test has: asyncio as the one event loop, and properties that try the same cases.

Also a plain setting, however the tests were started: SIGINT is heard, as by a program at a
terminal (one that was started in the background ignores it, and so would its children), and
the width of the terminal is not set. Commands use the installation of this machine, whatever
contexts its user has.
"""

import gc
import os
import signal
from collections.abc import Generator
from itertools import groupby, islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.plugins.lifecycle_search",
    "tests.plugins.podman",
    "tests.plugins.postgres",
    "tests.plugins.s3",
    "tests.plugins.wheel",
]

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("COLUMNS", None)
for variable in ("DETENT_URL", "DETENT_TOKEN"):
    os.environ.pop(variable, None)
os.environ["DETENT_CONTEXT"] = "local"
# For each pytest that a test starts: plugins that packages bring, and that take seconds to import.
os.environ["PYTEST_ADDOPTS"] = "-p no:langsmith_plugin -p no:schemathesis"

# No limit of time: what takes long on a busy machine is no fault of what is tried.
settings.register_profile(
    "detent",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("detent")


#: Directories whose tests drive real processes, browsers or networks: a test that fails there has
#: one second attempt, which the summary lists. Elsewhere a failure is final, also where guarantees
#: are tested with real processes: a second attempt could hide that one is broken.
SECOND_ATTEMPT = frozenset(
    {
        "agent_clis",
        "agents",
        "bench",
        "cli",
        "dashboard",
        "demo",
        "deploy",
        "docs",
        "e2e",
        "examples",
        "forges",
        "frameworks",
        "integrations",
        "packaging",
        "people",
        "ray",
        "worker",
    }
)
#: In these directories, files that have none.
FINAL = frozenset(
    {"worker/test_kills.py", "agents/test_acceptance_kills.py", "agents/test_acp_kill.py"}
)


#: The other directories with tests of many seconds. All of these are started first.
LONG = SECOND_ATTEMPT | {"fault_injection", "faults", "lifecycles", "simulation", "tidy"}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    again = pytest.mark.flaky(reruns=1)
    for item in items:
        if _directory(item) in SECOND_ATTEMPT and _path(item).as_posix() not in FINAL:
            item.add_marker(again)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = dealt(items, processes)


def dealt(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in an order in which no process has a long one left at the end.

    Each process of pytest-xdist gets an equal part of the list and begins at its start; one that
    has finished takes tests from the end of another part. So each part begins with files of long
    tests, in turn, and ends with short ones. The tests of a file stay together.
    """
    files = [[*tests] for _, tests in groupby(items, key=lambda item: item.path)]
    long = [tests for tests in files if _directory(tests[0]) in LONG]
    short = iter([item for tests in files if _directory(tests[0]) not in LONG for item in tests])
    order: list[pytest.Item] = []
    for number in range(processes):
        size = (len(items) - len(order)) // (processes - number)
        part = [item for tests in long[number::processes] for item in tests]
        order += [*part, *islice(short, max(size - len(part), 0))]
    return [*order, *short]


def _path(item: pytest.Item) -> Path:
    return item.path.relative_to(Path(__file__).parent)


def _directory(item: pytest.Item) -> str:
    return _path(item).parts[0]


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
