"""The eight entry points of a submission, each as one function from a request to its outcome."""

import itertools
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from detent import intake_row
from detent.app.app import App
from detent.app.run_context import Run
from detent.cli import output
from detent.cli.main import cli
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.keeper import intake_drain
from detent.operations.registry import OWNER, call
from detent.service import mcp_tools
from detent.store.types import Query
from detent.worker.worker import Worker
from tests.gateway.installation import DEADLINE_S, Installation, installed
from tests.operations.agent import Agent

Fields = Mapping[str, Any]
DOCUMENT = Path(__file__).parent.parent / "lifecycles" / "documents" / "seven_states.toml"


class Outcome(NamedTuple):
    """The id of the created task, or the code and the field of the refusal."""

    task_id: str | None = None
    code: str | None = None
    field: str | None = None


class Entry(Protocol):
    """One entry point. `lacks` says why it cannot express a request; empty if it can."""

    name: str

    def lacks(self, request: Fields) -> str: ...

    def submit(self, request: Fields) -> Outcome: ...


def refusal(problem: Fields) -> Outcome:
    return Outcome(code=problem["code"], field=problem.get("field"))


def of_error(error: DetentError) -> Outcome:
    return Outcome(code=error.code, field=str(error.details.get("field")))


def only(request: Fields, names: Collection[str], who: str) -> str:
    """The reason why a field cannot be given."""
    further = sorted(request.keys() - set(names) - {"colour"})
    return f"{who} has no field {further[0]}" if further else ""


def orders() -> App:
    """The handlers of the requests, which a worker has registered."""
    app = App()

    @app.intent("order", max_rounds=5)
    def order(customer: str, items: list[int], urgent: bool = False) -> None: ...

    @app.intent("free")
    def free(**anything):  # type: ignore[no-untyped-def]
        return anything

    return app


# ---- the installation ------------------------------------------------------------------------


class Scene:
    """A gateway whose known intents are those of `orders`, with one task to depend on."""

    def __init__(self, gateway: Installation, app: App, data: Path) -> None:
        self.gateway, self.app, self.data = gateway, app, data
        self.owner = gateway.client()
        self.core = gateway.core
        self.opened: list[sqlite3.Connection] = []

    def facts(self, task_id: str) -> dict[str, Any]:
        """The stored fields of a task and of its job."""
        with self.core.store.read() as view:
            (task,) = view.page(Query("tasks", {"id": task_id}))
            (job,) = view.page(Query("jobs", {"task_id": task_id}))
        names = ("intent", "payload", "priority", "title", "tags", "budget", "depends_on")
        found = {name: task[name] for name in (*names, "project", "lifecycle", "source")}
        options = {name: value for name, value in task["options"].items() if name != "not_before"}
        starts_at = job["not_before"]
        after_s = round((starts_at - job["created_at"]) / 1_000_000) if starts_at else None
        return {**found, "options": options, "after_s": after_s, "starts_at": starts_at}

    def head(self) -> int:
        return self.gateway.head()


@contextmanager
def scene(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    settings = {"intake_projects_locked": True, "run_subtasks": 1_000}
    with installed(directory, mcp_tools, **settings) as gateway:
        core = gateway.core
        core.intents = {"parent": {"subtask_intents": ["*"]}}
        core.engine.transaction(lambda tx: tx.put_rows("projects", {"demo": {}, "default": {}}))
        app = orders()
        app.lifecycle(DOCUMENT)
        worker = Worker(core, app, name="registers")
        worker.start()
        worker.stop(grace_s=0)
        app.bind(core)
        monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(directory))
        monkeypatch.setenv("DETENT_INTAKE_PROJECTS_LOCKED", "true")
        monkeypatch.chdir(directory)
        made = Scene(gateway, app, directory)
        yield made
        for each in made.opened:
            each.close()


# ---- entry points ----------------------------------------------------------------------------


class Http:
    name = "HTTP"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def lacks(self, request: Fields) -> str:
        return ""

    def submit(self, request: Fields) -> Outcome:
        answer = self.scene.owner.post("/api/tasks", json={**request, "run": True})
        body = answer.json()
        return Outcome(body["id"]) if answer.status_code == 201 else refusal(body)


class Mcp:
    name = "MCP"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def lacks(self, request: Fields) -> str:
        return ""

    def submit(self, request: Fields) -> Outcome:
        return anyio.run(self._submit, request)

    async def _submit(self, request: Fields) -> Outcome:
        async with self._client() as client:
            result: Any = await client.call_tool("submit_task", {**request, "run": True})
        found = result.structured_content
        return refusal(found) if result.is_error else Outcome(found["id"])

    @asynccontextmanager
    async def _client(self) -> Any:
        gateway = self.scene.gateway
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http:
            transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
            async with Client(transport) as client:
                yield client


class Cli:
    name = "CLI"
    OPTIONS: ClassVar[Fields] = {
        "project": "--project",
        "title": "--title",
        "priority": "--priority",
        "lifecycle": "--lifecycle",
        "max_budget_usd": "--budget",
        "not_before": "--at",
    }

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = scene.data
        self.shown: list[DetentError] = []
        monkeypatch.setattr(output, "print_error", self.shown.append)

    def lacks(self, request: Fields) -> str:
        if "intent" not in request:
            return "the intent is an argument that click requires"
        if "colour" in request:
            return "click refuses an unknown option"
        options = request.get("options", {})
        if options and list(options) != ["plan"]:
            return "of the options only the plan has an option"
        if not isinstance(request.get("payload", {}), dict):
            return "--payload takes an object, and click refuses anything else"
        typed = {**request, "max_budget_usd": ""}
        texts = [typed[name] for name in ("intent", *self.OPTIONS) if name in typed]
        if not all(isinstance(each, str) for each in texts):
            return "on a command line every value is text"
        if isinstance(request.get("max_budget_usd"), str):
            return "a number on a command line is a number"
        further = {"intent", "payload", "depends_on", "tags", "options", *self.OPTIONS}
        return only(request, further, "detent submit")

    def submit(self, request: Fields) -> Outcome:
        arguments = ["submit", request["intent"], "--json"]
        for name, option in self.OPTIONS.items():
            if name in request:
                arguments += [option, str(request[name])]
        for name, option in (("depends_on", "--depends-on"), ("tags", "--tag")):
            for each in request.get(name, ()):
                arguments += [option, each]
        if "payload" in request:
            arguments += ["--payload", json.dumps(request["payload"])]
        if "options" in request:
            plan = self.data / "plan.json"
            plan.write_text(json.dumps(request["options"]["plan"]))
            arguments += ["--plan", str(plan)]
        result = CliRunner().invoke(cli, arguments)
        if result.exit_code == 0:
            return Outcome(json.loads(result.output)["id"])
        return of_error(self.shown[-1])


class Embedded:
    name = "App.submit"

    def __init__(self, scene: Scene) -> None:
        self.app = scene.app

    def lacks(self, request: Fields) -> str:
        if "intent" not in request:
            return "the intent is a parameter that Python requires"
        if "payload" in request and request["payload"] is None:
            return "None is no payload in Python"
        return ""

    def submit(self, request: Fields) -> Outcome:
        ways = {"lifecycle": "review", **request}
        intent, payload = ways.pop("intent"), ways.pop("payload", None)
        try:
            return Outcome(self.app.submit(intent, payload, **ways).task_id)
        except DetentError as error:
            return of_error(error)


class Transactional:
    name = "transactional enqueue"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        #: Stays open: closing it would release the locks that this process holds on the file.
        self.theirs = sqlite3.connect(scene.data / "detent.db", timeout=DEADLINE_S)
        scene.opened.append(self.theirs)

    def lacks(self, request: Fields) -> str:
        return ""

    def submit(self, request: Fields) -> Outcome:
        statement, _ = intake_row("any", style="qmark")
        body = json.dumps({**request, "run": True})
        with self.theirs:
            self.theirs.execute(statement, ("submit_task", body, None))
        before = self._tasks()
        taken = intake_drain.run(self.scene.core)
        assert taken == 1, taken
        rows = call("list_refused", self.scene.core, OWNER)["items"]
        for row in rows:
            call("drop_refused", self.scene.core, OWNER, intake_id=row["id"])
        return refusal(rows[0]) if rows else Outcome((self._tasks() - before).pop())

    def _tasks(self) -> set[str]:
        with self.scene.core.store.read() as view:
            return {row["id"] for row in view.page(Query("tasks", limit=10_000))}


class Schedules:
    name = "keeper schedules"
    FIELDS = frozenset(
        {"intent", "payload", "project", "priority", "lifecycle", "options", "not_before"}
    )

    def __init__(self, scene: Scene) -> None:
        self.scene, self.numbers = scene, itertools.count()

    def lacks(self, request: Fields) -> str:
        return only(request, self.FIELDS, "a schedule")

    def submit(self, request: Fields) -> Outcome:
        path = f"/api/schedules/s{next(self.numbers)}"
        body = {"lifecycle": "review", **request, "every_s": 3_600}
        put = self.scene.owner.put(path, json=body)
        if put.status_code != 200:
            return refusal(put.json())
        fired = self.scene.owner.post(f"{path}/trigger").json()
        return Outcome(fired["task_id"]) if "task_id" in fired else refusal(fired)


class RunToken:
    name = "a run's token"
    FIELDS = frozenset(
        {
            *("intent", "payload", "title", "priority", "tags", "depends_on"),
            *("max_budget_usd", "not_before"),
        }
    )

    def __init__(self, scene: Scene) -> None:
        command = {"intent": "parent", "run": True, "priority": "P0"}
        made = scene.owner.post("/api/tasks", json=command).json()["id"]
        ask = ClaimRequest("by-hand", "nonce", 1, ["parent"])
        (claimed,) = scene.core.engine.claim(ask)
        assert claimed.task is not None
        assert claimed.task.id == made
        self.agent = Agent(scene.gateway, claimed)

    def sibling(self) -> str:
        """A task of the same tree, which a subtask may depend on."""
        made: str = self.agent.post("/subtasks", intent="free").json()["id"]
        return made

    def lacks(self, request: Fields) -> str:
        return only(request, self.FIELDS, "a subtask")

    def submit(self, request: Fields) -> Outcome:
        answer = self.agent.post("/subtasks", **request)
        body = answer.json()
        return Outcome(body["id"]) if answer.status_code == 201 else refusal(body)


class Subtask:
    name = "run.subtask"

    def __init__(self, scene: Scene) -> None:
        self.scene, self.numbers = scene, itertools.count()
        self.app = App()

        @self.app.intent("outer", retry={"retries": 0})
        def outer(run: Run, request: dict[str, Any]) -> dict[str, Any]:
            intent, payload = request["intent"], request.get("payload")
            try:
                made = run.subtask(intent, payload, not_before=request.get("not_before"))
            except DetentError as error:
                return of_error(error)._asdict()
            return {"task_id": made.id}

    def lacks(self, request: Fields) -> str:
        if "intent" not in request:
            return "the intent is a parameter that Python requires"
        if "colour" in request:
            return "a further name is an argument of the handler"
        if "payload" in request and request["payload"] is None:
            return "None is no payload in Python"
        return only(request, {"intent", "payload", "not_before"}, "run.subtask")

    def submit(self, request: Fields) -> Outcome:
        core = self.scene.core
        self.app.bind(core)
        handle = self.app.submit("outer", {"request": dict(request)}, lifecycle="review")
        worker = Worker(core, self.app, name=f"outer-{next(self.numbers)}", concurrency=1)
        worker.start()
        try:
            return Outcome(**handle.result(timeout=DEADLINE_S))
        finally:
            worker.stop(grace_s=0)
