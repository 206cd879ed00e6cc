"""A real Prometheus that scrapes one gateway every half second, and its HTTP API."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml

from tests.e2e.installation import DEADLINE_S, wait_until
from tests.ports import free_port


class Prometheus:
    """Queries of a Prometheus that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        answer = httpx2.get(f"{self.url}/api/v1/{path}", params=query, timeout=DEADLINE_S)
        assert answer.status_code == 200, f"{query}: {answer.text}"
        return answer.json()["data"]

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The values of an instant query, by labels."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector", expression
        return {
            tuple(sorted(each["metric"].items())): float(each["value"][1])
            for each in found["result"]
        }

    def is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/-/ready", timeout=DEADLINE_S).status_code == 200
        except httpx2.TransportError:
            return False


@contextmanager
def prometheus(directory: Path, target: str, token_file: Path, rules: Path) -> Iterator[Prometheus]:
    """Prometheus on loopback; `target` is the host and port of a gateway."""
    program = shutil.which("prometheus")
    assert program is not None, "install Prometheus: apt-get install prometheus"
    scrape: dict[str, Any] = {
        "job_name": "detent",
        "scrape_interval": "500ms",
        "authorization": {"credentials_file": str(token_file)},
        "static_configs": [{"targets": [target]}],
    }
    config = directory / "prometheus.yml"
    document = {
        "global": {"evaluation_interval": "500ms"},
        "scrape_configs": [scrape],
        "rule_files": [str(rules)],
    }
    config.write_text(yaml.safe_dump(document))
    listening = f"127.0.0.1:{free_port()}"
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={listening}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Prometheus(f"http://{listening}")
        wait_until(server.is_ready, "Prometheus is ready")
        yield server
    finally:
        process.kill()
        process.wait()
