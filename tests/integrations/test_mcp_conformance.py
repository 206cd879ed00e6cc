"""The task scenarios of the protocol's conformance tests, for the gateway and for the helper."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from detent.integrations.mcp_tasks import DurableTasks
from detent.operations.registry import Scope
from tests.gateway.installation import DEADLINE_S, Installation
from tests.integrations.task_tools import serving, working
from tests.integrations.task_tools_app import app
from tests.integrations.token_proxy import adding_token
from tools import mcp_conformance

SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
#: The package lists it, and skips it: it has no checks yet.
SKIPPED = "tasks-status-notifications"
#: The scenarios have time limits of their own, so only a few run at the same time.
AT_A_TIME = 3
#: What the gateway's client may do: submit, read, cancel, and answer questions.
SCOPES = (Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.REVIEW)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with working(tmp_path_factory.mktemp("conformance")) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def addresses(gateway: Installation) -> Iterator[dict[str, str]]:
    with (
        adding_token(gateway.url, gateway.token_for(*SCOPES)) as proxy,
        serving(durable_server()) as helper,
    ):
        yield {"gateway": f"{proxy}/mcp", "helper": f"{helper}/mcp"}


def durable_server() -> MCPServer:
    """A server of someone else with durable tasks. Its worker is that of the gateway."""
    return MCPServer("someone else's", extensions=[DurableTasks(app)])


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    mcp_conformance.install()


def run(address: str, scenario: str, results: Path) -> str:
    """What is wrong with one scenario: the program's output, or nothing."""
    ended = subprocess.run(
        mcp_conformance.argv(
            *("server", "--url", address, "--scenario", scenario, "--output-dir", str(results))
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        env={"PATH": os.environ["PATH"]},
    )
    [found] = results.rglob("checks.json")
    checks = json.loads(found.read_text("utf-8"))
    well = checks and all(each["status"] == "SUCCESS" for each in checks)
    return "" if well and ended.returncode == 0 else ended.stdout


def test_all_task_scenarios_of_the_package_are_run(tmp_path: Path) -> None:
    listed = subprocess.run(
        mcp_conformance.argv("list", "--server"), capture_output=True, text=True, check=True
    ).stdout
    found = set(re.findall(r"- (tasks-[a-z-]+) ", listed))
    assert found == {*SCENARIOS, SKIPPED}
    results = ("--output-dir", str(tmp_path))
    skipped = mcp_conformance.argv(
        *("server", "--url", "http://127.0.0.1:9/mcp", "--scenario", SKIPPED, *results)
    )
    subprocess.run(skipped, capture_output=True, timeout=DEADLINE_S, check=False)
    [checks] = tmp_path.rglob("checks.json")
    assert {each["status"] for each in json.loads(checks.read_text("utf-8"))} == {"SKIPPED"}


def test_every_check_of_every_scenario_passes(addresses: dict[str, str], tmp_path: Path) -> None:
    wanted = [
        (address, scenario, tmp_path / server / scenario)
        for scenario in SCENARIOS
        for server, address in addresses.items()
    ]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        flaws = list(pool.map(lambda each: run(*each), wanted))
    assert not any(flaws), "\n".join(filter(None, flaws))
