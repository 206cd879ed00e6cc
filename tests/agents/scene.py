"""An installation with the stand-in as its agent: script it, submit work, see what came of it."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.app.agent_presets import CLAUDE
from detent.app.app import App
from detent.app.handle import Handle
from detent.app.prepared_submission import PreparedSubmission
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.budget import budget_from
from detent.kernel.entities import Task
from detent.operations.context import Core
from detent.operations.queries import why
from detent.operations.registry import Caller
from detent.store.types import LoggedEvent, Query
from detent.testing import stand_in_agent
from detent.worker.worker import Worker
from tests.worker.waiting import installation, until, working

PERSON = c.Actor("person")
PROGRAM = [sys.executable, "-S", "-E", stand_in_agent.__file__]
#: Ends and places in which nothing more happens by itself.
AT_REST = ("ready", "blocked", "failed", "timed_out", "completed", "cancelled", "budget_exceeded")

#: How long a task may stay in a state that was not expected.
PATIENCE_S = 60.0

Step = Mapping[str, Any]


def claude_argv() -> list[Any]:
    """The preset's own argv, with the stand-in as the program."""
    return [*PROGRAM, *CLAUDE["argv"][1:]]


class Scene:
    """One task's story."""

    def __init__(self, core: Core, directory: Path) -> None:
        self.core, self.directory = core, directory
        self.app = App()
        self.agent: dict[str, Any] = {"preset": "claude", "argv": claude_argv(), "linger_s": 60.0}
        self.handle: Handle[Any] | None = None

    # -- setting up ------------------------------------------------------------------------

    def script(self, *runs: Sequence[Step], **agent: Any) -> None:
        """What the agent does, run by run, and what is configured about it."""
        file = self.directory / "script.json"
        file.write_text(json.dumps({"runs": runs}))
        variables = {"STAND_IN_SCRIPT": str(file), **agent.pop("variables", {})}
        self.agent = {**self.agent, **agent, "variables": variables}
        self.app.agents = {"stand-in": self.agent}

    def argv(self) -> list[Any]:
        argv: list[Any] = self.agent["argv"]
        return argv

    def intent(self, name: str = "fix", **options: Any) -> None:
        self.app.agent(name, "stand-in", options.pop("prompt", "Fix this: {payload}"), **options)

    def submit(
        self,
        payload: Any = None,
        lifecycle: str = "review",
        budget: float | None = None,
        intent: str = "fix",
        parent_id: str | None = None,
    ) -> str:
        """A task, queued; its id."""
        prepared = self._prepared(payload, intent)
        task_id = new_id()
        money = None if budget is None else budget_from(budget)
        command = c.SubmitTask(
            task_id,
            "default",
            lifecycle,
            intent,
            "api",
            title="the bug",
            payload=prepared.payload,
            budget=money,
            parent_id=parent_id,
            options=self.app.intents[intent].declared.options,
            queue=True,
        )
        self.core.engine.do(command, PERSON)
        self.handle = Handle(self.core.engine, f"{task_id}-j1", task_id, Any, PERSON)
        return task_id

    def submit_job(self, payload: Any = None) -> Handle[Any]:
        """The same as a job alone."""
        self.handle = self.app.submit_prepared(self._prepared(payload))
        return self.handle

    def _prepared(self, payload: Any, intent: str = "fix") -> PreparedSubmission:
        if "fix" not in self.app.intents:
            self.intent()
        given = payload if payload is not None else {"bug": "it is broken"}
        return self.app.bind(self.core).prepare(intent, given, (), {})

    @contextmanager
    def working(self, **options: Any) -> Iterator[Worker]:
        with working(self.core, self.app, **options) as worker:
            yield worker

    # -- acting ----------------------------------------------------------------------------

    def do(self, command: c.Command) -> Any:
        return self.core.engine.do(command, PERSON)

    # -- looking ---------------------------------------------------------------------------

    def task(self) -> Task:
        assert self.handle is not None
        with self.core.store.read() as view:
            return next(task for task, _ in view.tasks([self.handle.task_id or ""]))

    def rests(self, state: str, rounds: int = 0, spent: int = 0) -> Task:
        """The task, once it is in that state; another one in which it stays is an error."""
        other_s = [time.monotonic()]

        def look() -> Task | None:
            task = self.task()
            if task.rounds >= rounds and task.spent >= spent and task.state == state:
                return task
            if task.state not in AT_REST:
                other_s[0] = time.monotonic()
            shown = (task.state, task.blocked_detail, self.errors())
            assert time.monotonic() - other_s[0] < PATIENCE_S, shown
            return None

        found: Task = until(look, f"the task is {state}")
        return found

    def runs(self) -> list[Mapping[str, Any]]:
        assert self.handle is not None
        jobs = [self.handle.job_id]
        with self.core.store.read() as view:
            if self.handle.task_id is not None:
                query = Query("jobs", {"task_id": self.handle.task_id}, "created_at")
                jobs = [row["id"] for row in view.page(query)]
            return list(view.page(Query("runs", {"job_id": jobs}, "queued_at")))

    def run(self) -> Mapping[str, Any]:
        return self.runs()[-1]

    def errors(self) -> list[Any]:
        return [(run["state"], run["error"]) for run in self.runs()]

    def result(self) -> Any:
        with self.core.store.read() as view:
            return next(job for job, _ in view.jobs([self.task().job_id or ""])).result

    def events(self) -> list[LoggedEvent]:
        with self.core.store.read() as view:
            return list(view.events(0, 1_000))

    def names(self) -> list[str]:
        return [each.name for each in self.events()]

    def notes(self) -> list[str]:
        data = [json.loads(each.data) for each in self.events() if each.name == "run_progressed"]
        return [each["note"] for each in data]

    def why(self) -> Any:
        return why(self.core, Caller("person", frozenset()), task_id=self.task().id)["reasons"]

    def evidence(self) -> dict[str, str]:
        """Files by name, of all runs, with their types."""
        runs = [run["id"] for run in self.runs()]
        with self.core.store.read() as view:
            rows = view.page(Query("evidence", {"run_id": runs}, "at"))
        return {row["file"]: row["kind"] for row in rows}

    def output(self) -> str:
        file = self.core.settings.data_dir / "runs" / self.run()["id"] / "output.log"
        return file.read_text("utf-8", "replace") if file.exists() else ""

    def work(self) -> Path:
        """The task's directory."""
        assert self.handle is not None
        owner = self.handle.task_id or self.handle.job_id
        return self.core.settings.data_dir / "workspaces" / owner / "work"

    def sessions(self) -> list[dict[str, Any]]:
        """The sessions that the stand-in has stored, oldest first, with their prompts."""
        projects = self.core.settings.data_dir / "agents" / "stand-in" / "projects"
        files = sorted(projects.glob("*/*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [{"id": file.stem, **json.loads(file.read_text())} for file in files]

    def prompts(self) -> list[str]:
        """Every prompt of the last session."""
        prompts: list[str] = self.sessions()[-1]["prompts"]
        return prompts


@contextmanager
def scene(directory: Path, **settings: Any) -> Iterator[Scene]:
    options = {"worker_grace_ms": 300, "worker_heartbeat_ms": 200, "worker_poll_ms": 100}
    with installation(directory / "data", **{**options, **settings}) as core:
        yield Scene(core, directory)
