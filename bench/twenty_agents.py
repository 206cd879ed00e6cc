"""Twenty agents at the same time, with memory limits: `./dev bench twenty-agents`.

Four are the real command lines, which follow a scripted model on loopback; sixteen are scripted
programs that hold memory and report progress. Meanwhile a client reads and writes through the
gateway. Prints how long each agent was queued and ran, and the latencies of the gateway. Fails if
an agent starves or fails, or if the gateway is too slow. Runs where only loopback is reachable, and
needs git and bwrap.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.harness import machine, quantile
from bench.steady_client import Latencies, steady_client
from bench.workloads.jobs import directory
from bench.workloads.serving import Served
from detent.testing import stand_in_agent
from tests.agent_clis.case_run import AFTER, BEFORE, FILE, CliInstallation, toml_value
from tests.agent_clis.cli_profile import CLIS, FILES, Cli, Wanted
from tests.agents.repository import make_repository
from tools import agent_clis
from tools.agent_matrix import INSIDE, closed
from tools.web import ROOT
from verification.model_apis.model_script import Say, Step
from verification.model_apis.model_server import ModelServer, serving

SCRIPTED = 16
#: How often a real agent writes a file, and a scripted one reports its progress.
TURNS, ROUNDS = 5, 15
ROUND_S = 1.0
#: Memory limits of one run, and what a scripted agent allocates, in MB.
REAL_MB, SCRIPTED_MB, ALLOCATED_MB = 2_048, 256, 128
#: An agent starves if it is queued for longer than this, or has not ended by the deadline.
STARVED_S, DEADLINE_S = 30.0, 600.0
P99_MS = 100.0
DONE = "done"
LOOK_S = 0.5
CONFIG = """
[worker]
concurrency = {slots}

[intents.note]
command = ["true"]

[agents.scripted]
preset = "claude"
argv = {argv}
variables = {{ STAND_IN_SCRIPT = {script} }}
repos = [{repo}]
"""
INTENT = """
[intents.{name}]
agent = "{name}"
prompt = "Fix the value."
workspace = "worktree"
limits = {{ memory_mb = {memory_mb} }}
"""
ENDED = ("ready", "blocked", "failed", "timed_out", "budget_exceeded", "cancelled")
ARGV: list[Any] = [
    *(sys.executable, stand_in_agent.__file__, "-p", "{prompt}"),
    ["--session-id", "{session_id}"],
    ["--resume", "{resume_id}"],
]


class Agent(NamedTuple):
    """What became of one agent; `ran_s` is None if it never ended."""

    name: str
    queued_s: float
    ran_s: float | None
    state: str
    error: str

    @property
    def is_starved(self) -> bool:
        return self.ran_s is None or self.queued_s > STARVED_S

    @property
    def verdict(self) -> str:
        if self.is_starved:
            return f"starved ({self.state})"
        return DONE if self.state == "ready" else f"{self.state}: {self.error}"


class Crowd:
    """A `detent up` with twenty slots, and the tasks of the twenty agents by id."""

    def __init__(self, place: Path, models: ModelServer) -> None:
        self.models = models
        self.detent = CliInstallation(place)
        self.detent.data = self.detent.project / ".detent"
        self.repo = make_repository(place / "repo", {FILE: BEFORE})
        self.tasks: dict[str, str] = {}

    def start(self) -> Served:
        tables = {each.name: each.agent(Wanted(f"{self.models.url}/{each.name}")) for each in CLIS}
        files = {name: table.pop(FILES, {}) for name, table in tables.items()}
        (self.detent.project / "detent.toml").write_text("".join(self._config(tables)))
        self.detent.start()
        for name, texts in files.items():
            for path, text in texts.items():
                file = self.detent.data / "agents" / name / path
                file.parent.mkdir(parents=True, mode=0o700)
                file.write_text(text)
        assert self.detent.process is not None
        port = urlsplit(self.detent.url).port or 0
        return Served(self.detent.process.pid, port, self.detent.token)

    def _config(self, tables: dict[str, dict[str, Any]]) -> Iterator[str]:
        repo = json.dumps(str(self.repo))
        slots = len(CLIS) + SCRIPTED
        script = json.dumps(json.dumps({"runs": [list(_scripted_steps())]}))
        yield CONFIG.format(slots=slots, argv=json.dumps(ARGV), script=script, repo=repo)
        yield INTENT.format(name="scripted", memory_mb=SCRIPTED_MB)
        for name, table in tables.items():
            yield INTENT.format(name=name, memory_mb=REAL_MB)
            yield f"\n[agents.{name}]\nrepos = [{repo}]\n"
            yield from (f"{key} = {toml_value(value)}\n" for key, value in table.items())

    def submit(self) -> None:
        """Create all tasks, then queue them one after the other, the real agents last."""
        for number in range(SCRIPTED):
            self.tasks[self._create("scripted")] = f"scripted {number + 1}"
        for cli in CLIS:
            task_id = self._create(cli.name)
            self.tasks[task_id] = cli.title
            work = self.detent.data / "workspaces" / task_id / "work"
            self.models.add(cli.name, cli.api(), *_real_steps(cli, work))
        for task_id in self.tasks:
            answer = self.detent.post(f"/api/tasks/{task_id}/run", {})
            assert answer.status_code == 200, answer.text

    def _create(self, intent: str) -> str:
        answer = self.detent.post("/api/tasks", {"intent": intent})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def wait(self) -> int:
        """Wait until all agents have ended, or the deadline; the most that ran at the same time."""
        until_s = time.monotonic() + DEADLINE_S
        most = 0
        while time.monotonic() < until_s:
            states = [self.detent.task(task_id)["state"] for task_id in self.tasks]
            if all(each in ENDED for each in states):
                break
            running = self.detent.get("/api/runs?state=running&limit=100")["items"]
            most = max(most, len(running))
            time.sleep(LOOK_S)
        return most

    def outcomes(self) -> list[Agent]:
        return [self._outcome(task_id, name) for task_id, name in self.tasks.items()]

    def _outcome(self, task_id: str, name: str) -> Agent:
        task = self.detent.task(task_id)
        runs = self.detent.get(f"/api/tasks/{task_id}/runs")["items"]
        job = self.detent.get(f"/api/jobs/{task['job_id']}")
        queued_s = _seconds(job["queued_at"])
        began_s = _seconds(runs[0]["started_at"]) if runs else time.time()
        ended = runs[-1]["ended_at"] if runs and task["state"] in ENDED else None
        error = next((str(each["error"]) for each in reversed(runs) if each["error"]), "")
        ran_s = None if ended is None else _seconds(ended) - began_s
        return Agent(name, began_s - queued_s, ran_s, task["state"], error)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _real_steps(cli: Cli, work: Path) -> Iterator[Step]:
    for number in range(TURNS - 1):
        yield Step(cli.write(work / f"note_{number}.txt", f"{number}\n"))
    yield Step(cli.write(work / FILE, AFTER))
    yield Step(Say("The value is right now."))


def _scripted_steps() -> Iterator[dict[str, Any]]:
    yield {"allocate": ALLOCATED_MB}
    for number in range(ROUNDS):
        progress = {"progress": (number + 1) / ROUNDS, "note": f"round {number + 1}"}
        yield {"say": f"Round {number + 1}."}
        yield {"write": {f"note_{number}.txt": f"{number}\n"}}
        yield {"post": ["/api/run/progress", progress]}
        yield {"hang": ROUND_S}
    yield {"write": {FILE: AFTER}}
    yield {"finish": {"result": "The value is right now."}}


class Measured(NamedTuple):
    """The agents, how many ran at the same time, and the latencies of the gateway meanwhile."""

    agents: Sequence[Agent]
    most: int
    latencies: Latencies
    #: Requests of the real agents that the model server has refused.
    problems: Sequence[str]

    @property
    def is_good(self) -> bool:
        done = all(each.verdict == DONE for each in self.agents)
        return done and not self.problems and self.latencies.quantile_ms(0.99) <= P99_MS


def measure() -> Measured:
    with directory() as place, serving(ModelServer()) as models:
        crowd = Crowd(place, models)
        server = crowd.start()
        try:
            with steady_client(server) as client:
                crowd.submit()
                most = crowd.wait()
                latencies = client.stop()
            problems = [each for case in models.cases.values() for each in case.problems]
            return Measured(crowd.outcomes(), most, latencies, [*problems, *models.stray])
        finally:
            crowd.detent.stop()


def report(measured: Measured) -> Iterator[str]:
    agents, most, latencies, problems = measured
    yield ", ".join(f"{name}: {value}" for name, value in machine().items())
    yield f"{'agent':14} {'queued s':>9} {'ran s':>8}  outcome"
    for each in agents:
        ran = "-" if each.ran_s is None else f"{each.ran_s:.1f}"
        yield f"{each.name:14} {each.queued_s:9.2f} {ran:>8}  {each.verdict}"
    yield f"most at the same time: {most} of {len(agents)}"
    for name, durations in (("reads", latencies.reads_ms), ("writes", latencies.writes_ms)):
        p50, p99 = quantile(durations, 0.5), quantile(durations, 0.99)
        yield f"gateway, {len(durations)} {name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    yield f"gateway, all: p99 {latencies.quantile_ms(0.99):.1f} ms, at most {P99_MS:.0f} ms allowed"
    yield from (f"model server: {each}" for each in problems)


def main(_arguments: Sequence[str] = ()) -> int:
    """Run four real and sixteen scripted agents at the same time, with memory limits."""
    agent_clis.install()
    if INSIDE not in os.environ:
        argv = closed([sys.executable, "-m", "bench", "twenty-agents"])
        return subprocess.run(
            argv, env={**os.environ, INSIDE: "1"}, cwd=ROOT, check=False
        ).returncode
    measured = measure()
    print("\n".join(report(measured)))
    return 0 if measured.is_good else 1
