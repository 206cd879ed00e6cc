"""An agent for tests: a claimed run with its token, and an HTTP client that uses it."""

from typing import Any

import httpx2

from detent.engine import Claimed
from detent.operations.run_tokens import issue_run_token
from tests.gateway.installation import Installation


class Agent:
    """A running run of a task."""

    def __init__(self, gateway: Installation, claimed: Claimed) -> None:
        assert claimed.task is not None
        assert claimed.job.run_id is not None
        self.gateway, self.claimed, self.task = gateway, claimed, claimed.task
        self.run_id = claimed.job.run_id
        self.token = issue_run_token(gateway.core, claimed.grant, self.run_id)
        self.http = gateway.client(self.token)

    def post(self, path: str, **body: Any) -> httpx2.Response:
        return self.http.post(f"/api/run{path}", json=body)

    def look(self) -> Any:
        return self.http.get("/api/run").json()


def submitted(owner: httpx2.Client, **fields: Any) -> str:
    answer = owner.post("/api/tasks", json={"intent": "review", "run": True, **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def at_work(gateway: Installation, owner: httpx2.Client, **fields: Any) -> Agent:
    """Submit a task and start its run."""
    return Agent(gateway, gateway.claim(submitted(owner, **fields)))
