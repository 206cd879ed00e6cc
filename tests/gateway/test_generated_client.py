"""A client that a public generator makes from the served document works, without the network."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.installation import Installation

PACKAGE = "made_by_a_generator"
CONFIG = f"""\
post_hooks: []
package_name_override: {PACKAGE}
content_type_overrides:
  application/x-ndjson: application/octet-stream
"""


@pytest.fixture(scope="module")
def made(gateway: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The generated package, where it can be imported."""
    directory = tmp_path_factory.mktemp("generated")
    document, config = directory / "openapi.json", directory / "config.yml"
    document.write_bytes(gateway.client().get("/openapi.json").content)
    config.write_text(CONFIG, "utf-8")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning"]
    options = ["--path", str(document), "--config", str(config), "--meta", "none"]
    output = ["--output-path", str(directory / PACKAGE)]
    made = subprocess.run(
        [*command, *options, *output], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    sys.path.insert(0, str(directory))
    yield directory / PACKAGE
    sys.path.remove(str(directory))


def part(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


@pytest.fixture
def client(gateway: Installation, made: Path) -> Iterator[Any]:
    with part("client").AuthenticatedClient(base_url=gateway.url, token=gateway.token) as client:
        yield client


def test_a_task_is_led_through_its_life(gateway: Installation, client: Any) -> None:
    models = part("models")
    body = models.SubmitTaskBody(intent="runQA", run=True)
    submitted = part("api.tasks.submit_task").sync(client=client, body=body, idempotency_key="k")
    again = part("api.tasks.submit_task").sync(client=client, body=body, idempotency_key="k")
    assert (again.id, again.repeated) == (submitted.id, True)
    page = part("api.tasks.list_tasks").sync(client=client, state="queued")
    assert submitted.id in [task.id for task in page.items]
    gateway.complete(submitted.id)
    shown = part("api.tasks.show_task").sync(submitted.id, client=client)
    assert (shown.state, shown.intent) == ("ready", "runQA")
    verdict = models.AcceptTaskBody(comment="good", seen=shown.version)
    moved = part("api.tasks.accept_task").sync(submitted.id, client=client, body=verdict)
    assert moved.state == "completed"


def test_a_refusal_comes_back_as_a_problem(client: Any) -> None:
    problem = part("api.tasks.show_task").sync("none", client=client)
    assert isinstance(problem, part("models").Problem)
    assert (problem.code, problem.status) == ("unknown_task", 404)


def test_it_has_every_operation(gateway: Installation, made: Path) -> None:
    document = gateway.client().get("/openapi.json").json()
    wanted = {
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    assert wanted == {file.stem for file in made.glob("api/*/*.py")} - {"__init__"}
