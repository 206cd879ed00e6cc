"""The image and the compose file: built with podman and run as the file says, on PostgreSQL."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from detent.cli.main import COMMANDS
from detent.settings import Settings
from tests.deploy.prometheus_server import prometheus
from tests.docs import machines
from tests.e2e.installation import DEADLINE_S, wait_until
from tests.plugins.podman import BASE, ran
from tests.plugins.wheel import ROOT, Installed
from tests.ports import free_port
from tools import package
from verification.network import Machine
from verification.postgres_server import Cluster

DEPLOY = ROOT / "deploy"
IMAGE = "localhost/detent:test"
PARTS = {"gateway": "serve", "keeper": "keeper", "worker": "worker"}
MAX_IMAGE_MB = 200
CONFIG = """
[intents.hello]
command = ["python3", "-c", "print('hello')"]

[intents.slow]
command = ["python3", "-c", "import time; time.sleep(3)"]
"""


# ---- the file --------------------------------------------------------------------------------


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text("utf-8"))
    return found


def service(name: str) -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"][name]
    return found


def test_the_file_has_every_part() -> None:
    assert set(compose()["services"]) == {"postgres", "prometheus", *PARTS}
    assert service("worker")["deploy"]["replicas"] == 2
    for name, command in PARTS.items():
        part = service(name)
        assert part["command"][0] == command
        assert command in COMMANDS
        assert part["healthcheck"]["test"][-2:] == ["probe", name]
        assert part["depends_on"]["postgres"] == {"condition": "service_healthy"}
    for file in ("detent.toml", "prometheus.yml"):
        assert (DEPLOY / "compose" / file).exists()


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_no_rights(name: str) -> None:
    part = service(name)
    assert part["user"] == "10001:10001"
    assert part["read_only"] is True
    assert part["cap_drop"] == ["ALL"]
    assert part["security_opt"] == ["no-new-privileges:true"]


def test_a_worker_is_stopped_after_its_lease_and_both_graces() -> None:
    part, defaults = service("worker"), Settings()
    grace_ms = int(part["environment"]["DETENT_WORKER_GRACE_MS"])
    assert grace_ms > defaults.worker_lease_ms
    assert int(part["stop_grace_period"].removesuffix("s")) * 1_000 > 2 * grace_ms


def test_prometheus_gets_the_files_that_its_configuration_names() -> None:
    mounted = {text.split(":")[1] for text in service("prometheus")["volumes"]}
    text = (DEPLOY / "compose" / "prometheus.yml").read_text("utf-8")
    (scraped,) = (config := yaml.safe_load(text))["scrape_configs"]
    assert {scraped["authorization"]["credentials_file"], *config["rule_files"]} <= mounted
    assert scraped["static_configs"] == [{"targets": ["gateway:5680"]}]
    assert service("gateway")["environment"]["DETENT_GATEWAY_HOSTS"] == "gateway:5680"


# ---- the image -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(podman: None, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, built as docs/howto/containers.md says, on the base of the tests."""
    context = tmp_path_factory.mktemp("context")
    package.image_context(context, wheel, python="3.11")
    package.image(context, BASE, IMAGE)
    return IMAGE


def test_the_image_is_small_and_not_for_root(image: str) -> None:
    (found,) = json.loads(ran(["podman", "image", "inspect", image]))
    config = found["Config"]
    assert found["Size"] < MAX_IMAGE_MB * 1_000_000, found["Size"]
    assert config["User"] == "10001:10001"
    assert config["Volumes"] == {"/var/lib/detent": {}}
    assert found["Healthcheck"]["Test"] == [*("CMD", "python3", "-m", "detent", "probe", "gateway")]


#: The variables with which the fixture `podman` names its storage.
STORAGE_FILES = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF")
#: The program of the tutorial's commands, in the image.
PROGRAM = """#!/bin/busybox sh
exec python3 -m detent "$@"
"""


def test_the_tutorial_with_workers_in_containers(
    image: str, installed: Installed, tmp_path: Path
) -> None:
    """Each container has the network of a machine of its own, and the files of the page."""
    home, programs = tmp_path / "home", tmp_path / "programs"
    programs.mkdir()
    (programs / "detent").write_text(PROGRAM)
    (programs / "detent").chmod(0o755)

    def container(machine: Machine) -> list[str]:
        place = home / "here"
        storage = (f"{name}={os.environ[name]}" for name in STORAGE_FILES)
        return [
            *("env", *storage, "podman", "run", "--rm", "--read-only", "--user=0:0", "--pid=host"),
            *(f"--network=ns:/run/netns/{machine.namespace}", f"--name={machine.namespace}"),
            *(f"--volume={place}:{place}", f"--volume={programs}:/programs:ro"),
            *(
                f"--workdir={place}",
                "--env=PATH=/programs:/usr/bin:/bin",
                "--entrypoint=/bin/busybox",
            ),
            *(image, "sh", "-c"),
        ]

    workers = {"machine-2": container, "machine-3": container}
    output = machines.follow(home, installed("postgres"), workers)
    assert "Clean: the log" in output
    assert "cancelled" in output


# ---- the parts, run as the compose file says ---------------------------------------------------


class Containers:
    """Containers of the compose file's services, on the network of the machine."""

    def __init__(self, directory: Path, store: str) -> None:
        self.directory, self.store, self.port = directory, store, free_port()
        (directory / "detent.toml").write_text(CONFIG)
        #: The service of each container.
        self.names: dict[str, str] = {}

    def start(self, part: str, name: str) -> None:
        wanted = service(part)
        variables = {
            **wanted.get("environment", {}),
            "DETENT_STORE_URL": self.store,
            "DETENT_GATEWAY_PORT": str(self.port),
            "DETENT_GATEWAY_HOSTS": f"127.0.0.1:{self.port}",
            "DETENT_WORKER_NAME": name,
        }
        volumes = [text for text in wanted["volumes"] if text.startswith("./")]
        ran(
            [
                *("podman", "run", "--detach", "--network=host", f"--name={name}"),
                *self._rights(wanted),
                *(f"--env={key}={value}" for key, value in variables.items()),
                *(f"--volume={self.directory}/{text.removeprefix('./')}" for text in volumes),
                IMAGE,
                *wanted["command"],
            ]
        )
        self.names[name] = part

    def _rights(self, wanted: Mapping[str, Any]) -> Iterator[str]:
        yield f"--user={wanted['user']}"
        yield f"--read-only={str(wanted['read_only']).lower()}"
        yield from (f"--cap-drop={each}" for each in wanted["cap_drop"])
        yield from (f"--security-opt={each.split(':')[0]}" for each in wanted["security_opt"])
        yield from (f"--tmpfs={each}" for each in wanted["tmpfs"])

    def is_healthy(self, name: str) -> bool:
        """Whether the health check of the compose file passes."""
        kind, *test = service(self.names[name])["healthcheck"]["test"]
        assert kind == "CMD"
        return self.execute(name, *test).returncode == 0

    def python(self, name: str, *argv: str) -> "subprocess.CompletedProcess[str]":
        return self.execute(name, "python3", *argv)

    def execute(self, name: str, *argv: str) -> "subprocess.CompletedProcess[str]":
        argv = ("podman", "exec", name, *argv)
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def remove(self) -> None:
        for name in self.names:
            ran(["podman", "rm", "--force", "--time=0", name])


@pytest.fixture(scope="module")
def running(
    image: str, postgres_server: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """The parts of the compose file: gateway, keeper and two workers, all healthy."""
    store = postgres_server.create_database("compose")
    made = Containers(tmp_path_factory.mktemp("compose"), store)
    try:
        for part, name in (
            ("gateway", "gateway"),
            ("keeper", "keeper"),
            ("worker", "worker-1"),
            ("worker", "worker-2"),
        ):
            made.start(part, name)
            if part == "gateway":  # it creates the schema
                wait_until(lambda: made.is_healthy("gateway"), "the gateway is healthy")
        yield made
    finally:
        made.remove()
        postgres_server.drop_database("compose")


@pytest.fixture(scope="module")
def client(running: Containers) -> Iterator[httpx2.Client]:
    scopes = ("--scope", "read", "--scope", "submit")
    made = running.python("keeper", "-m", "detent", "tokens", "create", "tests", *scopes, "--json")
    assert made.returncode == 0, made.stderr
    headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
    url = f"http://127.0.0.1:{running.port}"
    with httpx2.Client(base_url=url, headers=headers, timeout=DEADLINE_S) as found:
        yield found


def is_healthy_by_image() -> bool:
    argv = ["podman", "healthcheck", "run", "gateway"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", ["gateway", "keeper", "worker-1", "worker-2"])
def test_a_part_is_healthy_and_cannot_change_its_files(running: Containers, name: str) -> None:
    wait_until(lambda: running.is_healthy(name), f"{name} is healthy")
    user = running.python(name, "-c", "import os; print(os.getuid(), os.getgid())")
    assert user.stdout.split() == ["10001", "10001"]
    if name == "gateway":
        wait_until(is_healthy_by_image, "the health check of the image passes")
    for path in ("/opt/detent/x", "/etc/detent/x", "/x"):
        changed = running.python(name, "-c", f"open({path!r}, 'w')")
        assert changed.returncode != 0
        assert "Error" in changed.stderr
    assert running.python(name, "-c", "open('/tmp/x', 'w')").returncode == 0


def submitted(client: httpx2.Client, intent: str) -> str:
    body = {"intent": intent, "run": True, "lifecycle": "board"}
    answer = client.post("/api/tasks", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_work_is_done_and_prometheus_sees_it(
    running: Containers, client: httpx2.Client, tmp_path: Path
) -> None:
    made = submitted(client, "hello")

    def is_done() -> bool:
        return bool(client.get(f"/api/tasks/{made}").json()["state"] == "done")

    wait_until(is_done, "the task is done")
    token, rules = tmp_path / "token", DEPLOY / "prometheus" / "alerts.yml"
    token.write_text(client.headers["Authorization"].removeprefix("Bearer "))
    with prometheus(tmp_path, f"127.0.0.1:{running.port}", token, rules) as server:
        kinds = wait_until(lambda: server.query("detent_workload_jobs"), "the metrics")
    assert len(kinds) == 3


def test_a_stopped_worker_finishes_its_job(running: Containers, client: httpx2.Client) -> None:
    made = submitted(client, "slow")

    def holder() -> str | None:
        for row in client.get("/api/workers").json()["items"]:
            if made in [each["task_id"] for each in row["running"]]:
                return str(row["name"])
        return None

    name = wait_until(holder, "a worker runs the job")
    seconds = service("worker")["stop_grace_period"].removesuffix("s")
    ran(["podman", "stop", f"--time={seconds}", name])
    (job,) = client.get(f"/api/tasks/{made}/jobs").json()["items"]
    assert (job["state"], job["attempt"], job["runs"]) == ("completed", 1, 1)
    ended = ran(["podman", "inspect", "--format={{.State.ExitCode}}", name])
    assert ended.strip() == "0"
