"""One case: a detent of real processes, an agent command line, and a scripted model on loopback."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from detent.client import Client
from tests.agent_clis.cli_profile import FILES, KEY, PROVIDER_KEYS, Cli, Table, Wanted
from tests.agents.repository import make_repository
from tests.e2e.installation import Installation, wait_until
from tools import agent_clis
from verification.model_apis.model_script import Account, Reply, Request, Step
from verification.model_apis.model_server import Case, ModelServer

T = TypeVar("T")
CONFIG = """
[worker]
lease_ms = 15000
heartbeat_ms = 500
grace_ms = 2000
nice = 0

[intents.fix]
agent = "{agent}"
prompt = "Fix this: {{payload.bug}}"
workspace = "worktree"
on_budget_exceeded = "stop"
{intent}

[agents.{agent}]
repos = [{repo}]
"""
BUG = "the value is wrong"
#: How long an agent may take for a step, on a machine that does other work too.
DEADLINE_S = 300.0
FILE, BEFORE, AFTER = "code.py", "broken = True\n", "broken = False\n"


class CliInstallation(Installation):
    """An installation whose PATH begins with the agent command lines."""

    @property
    def environment(self) -> dict[str, str]:
        known = super().environment
        path = f"{agent_clis.INSTALLED / 'bin'}:{known['PATH']}"
        keys = {_key_variable(name): key for name, key in PROVIDER_KEYS.items()}
        return {**known, **keys, "PATH": path, "LOCAL_KEY": KEY}


class CaseRun:
    """What a case does: script the model, submit a task, act as a person, read the outcome."""

    def __init__(self, cli: Cli, directory: Path, server: ModelServer) -> None:
        self.cli, self.server = cli, server
        self.detent = CliInstallation(directory)
        self.detent.data = self.detent.project / ".detent"
        self.repo = make_repository(directory / "repo", {FILE: BEFORE})
        self.task_id = ""
        #: With which account a provider's requests are sent, by name.
        self.accounts: dict[str, Account] = {}
        self.name = f"{cli.name}-{len(server.cases)}"
        self.script: Case = server.add(self.name, cli.api())

    # -- setting up ------------------------------------------------------------------------

    def start(
        self,
        steps: Callable[[Path], Iterable[Step]],
        *,
        allowed: bool = True,
        max_turns: int | None = None,
        intent: str = "",
        providers: bool = False,
        **submission: Any,
    ) -> str:
        """Start detent with this agent, and a task whose model follows the steps.

        With `providers`, the agent has no key of its own: its task type names two providers.
        """
        cli = self.cli
        url = f"{self.server.url}/{self.name}"
        table = cli.agent(Wanted(url, allowed, max_turns))
        files = table.pop(FILES, {})
        if max_turns is not None:
            table.setdefault("max_turns", max_turns)
        declared = self._providers(table, url) if providers else ""
        if providers:
            intent += f"\nproviders = {json.dumps(list(PROVIDER_KEYS))}"
        repo = json.dumps(str(self.repo))
        lines = [CONFIG.format(agent=cli.name, intent=intent, repo=repo)]
        lines += [f"{key} = {toml_value(value)}\n" for key, value in table.items()]
        (self.detent.project / "detent.toml").write_text("".join(lines) + declared)
        self.detent.start()
        for name, text in files.items():
            file = self.detent.data / "agents" / cli.name / name
            file.parent.mkdir(parents=True, mode=0o700)
            file.write_text(text)
        body = {"intent": "fix", "payload": {"bug": BUG}, **submission}
        answer = self.detent.post("/api/tasks", body)
        assert answer.status_code == 201, answer.text
        self.task_id = answer.json()["id"]
        self.script.steps += steps(self.work)
        assert self.detent.post(f"/api/tasks/{self.task_id}/run", {}).status_code == 200
        return self.task_id

    def _providers(self, table: Table, url: str) -> str:
        """The tables of two providers, each with a key and, if a variable has it, an address."""
        secrets = table.pop("secrets")
        addresses = {k: text for k, text in table.get("variables", {}).items() if url in text}
        tables = []
        for name, key in PROVIDER_KEYS.items():
            self.accounts[name] = Account(key, f"/{name}" if addresses else "")
            own = {k: text.replace(url, f"{url}/{name}") for k, text in addresses.items()}
            keys = dict.fromkeys(secrets, f"env:{_key_variable(name)}")
            tables += [f"[providers.{name}]", f"secrets = {toml_value(keys)}"]
            tables += [f"variables = {toml_value(own)}"]
        return "\n".join(tables)

    def resumed(self, reply: Reply, *sees: str, account: Account | None = None) -> Step:
        """The first step after the agent was resumed; in a new session if it cannot resume."""
        self.script.expected_problem = self.cli.resume_problem
        fresh = self.cli.resume_problem is not None
        return Step(reply, sees=sees, account=account, fresh=fresh)

    # -- acting ----------------------------------------------------------------------------

    def answer(self, text: str) -> None:
        assert self.detent.run("answer", self.task_id, text).returncode == 0

    def request_changes(self, comment: str, *lines: str) -> None:
        """Request changes with a comment on each of the first lines of the file."""
        with self.client() as client:
            diff = client.call("task_comments", task_id=self.task_id)["diff"]
            for line, text in enumerate(lines, 1):
                place = {"file": FILE, "side": "after", "start": line, "end": line}
                client.call("add_comment", task_id=self.task_id, diff=diff, text=text, **place)
            client.call("request_changes", task_id=self.task_id, diff=diff, comment=comment)

    def kill(self) -> None:
        """SIGKILL of detent and of the agent's processes."""
        agents = self.agent_processes()
        self.detent.kill()
        for each in agents:
            with contextlib.suppress(ProcessLookupError):  # it ended with its parent
                os.kill(each, signal.SIGKILL)

    def kill_in_turn(self) -> None:
        """The same while the model stalls, which it does no more afterwards."""
        self.stalls()
        assert self.detent.task(self.task_id)["session_id"]
        assert self.agent_processes()
        self.kill()
        self.server.advance(self.name)

    # -- looking ---------------------------------------------------------------------------

    @property
    def work(self) -> Path:
        """The worktree of the task."""
        return self.detent.data / "workspaces" / self.task_id / "work"

    def rests(self, *states: str) -> dict[str, Any]:
        """The task, once it is in one of these states; another one at rest is an error."""
        rest = {"ready", "blocked", "failed", "timed_out", "budget_exceeded", "cancelled"}

        def look() -> dict[str, Any] | None:
            task = self.detent.task(self.task_id)
            assert not self.script.problems, self.script.problems
            shown = (task["state"], task["blocked_by"], task["blocked_detail"], self.errors())
            assert task["state"] in states or task["state"] not in rest, shown
            return task if task["state"] in states else None

        return wait_for(look, f"task {' or '.join(states)}")

    def stalls(self) -> None:
        """Wait until the model stalls."""
        wait_for(
            lambda: self.script.stalled.is_set() or bool(self.script.problems), "the model is asked"
        )
        assert not self.script.problems, self.script.problems

    def agent_processes(self) -> list[int]:
        """The processes with this task in their environment."""
        wanted = f"DETENT_TASK_ID={self.task_id}".encode()
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (each / "environ").read_bytes().split(b"\0"):
                    found.append(int(each.name))
            except OSError:
                continue
        return found

    def wait_for_runs(self, count: int) -> None:
        def look() -> bool:
            assert not self.script.problems, self.script.problems
            return len(self.runs()) >= count

        wait_for(look, f"{count} runs")

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.detent.get(f"/api/tasks/{self.task_id}/runs")["items"]
        return found

    def model_requests(self) -> list[Request]:
        """The requests that offer tools: those of the agent's own loop."""
        tools = self.script.api.tools
        return [each for each in self.script.requests if tools(each.body)]

    def errors(self) -> list[Any]:
        return [(each["error_class"], each["error"]) for each in self.runs()]

    def transcript(self) -> list[dict[str, Any]]:
        """The items of the transcripts of all runs."""
        with self.client() as client:
            return [
                item
                for run in self.runs()
                for item in client.call("run_transcript", run_id=run["id"])["items"]
            ]

    def client(self) -> Client:
        return Client(self.detent.url, self.detent.token)

    def stop(self) -> None:
        self.detent.stop()


def wait_for(look: Callable[[], T | None], what: str) -> T:
    """What `look` finds, as soon as it finds something."""
    return wait_until(look, what, DEADLINE_S)


def _key_variable(provider: str) -> str:
    return f"{provider.upper()}_KEY"


def toml_value(value: Any) -> str:
    """A value of TOML; strings and lists are those of JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
