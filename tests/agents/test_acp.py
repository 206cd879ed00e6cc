"""The ACP runner with an agent on the protocol's Python SDK, in real processes."""

import json
import os
import signal
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from detent.app.agent_config import KEYS
from detent.kernel import commands as c
from detent.operations.registry import Caller, Scope, call
from detent.testing.conformance.work_actions import keep
from detent.worker.runners.acp.acp_runner import AcpRun
from detent.worker.runners.process_group import Group
from tests.agents.scene import Scene
from tests.worker.waiting import let_pass, until

ROOT = Path(__file__).parents[2]
AGENT = Path(__file__).with_name("acp_agent.py")
OWNER = Caller("person", frozenset(Scope))
Steps = Sequence[Mapping[str, Any]]
#: Lines of an agent that are not messages of the protocol, or not valid ones.
NO_MESSAGES = ("no message", "{", "[1]", "{}", '{"jsonrpc": "2.0", "id": 99, "method": 5}')


class AcpScene:
    """A scene whose agent speaks ACP."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.state = scene.directory / "state"
        self.state.mkdir()

    def script(self, *runs: Steps, variables: Mapping[str, str] | None = None, **more: Any) -> None:
        """What the agent does, prompt by prompt, and how it is configured."""
        file = self.scene.directory / "script.json"
        known = {"ACP_SCRIPT": str(file), "ACP_STATE": str(self.state), **(variables or {})}
        table: dict[str, Any] = {"preset": "acp", "argv": [sys.executable, str(AGENT)]}
        for key in [key for key in more if key in KEYS]:
            table[key] = more.pop(key)
        file.write_text(json.dumps({"runs": runs, **more}))
        self.scene.app.agents = {"stand-in": {**table, "variables": known}}

    def question(self) -> Mapping[str, Any]:
        """The open request of the live run, in the inbox."""
        found: Any = until(self._questions, "a request for permission is in the inbox")
        return dict(found[0])

    def _questions(self) -> Any:
        assert self.scene.task().state in ("queued", "running"), self.scene.errors()
        return call("inbox", self.scene.core, OWNER)["questions"]

    def answer(self, question: Mapping[str, Any], answer: str) -> None:
        given = {"job_id": question["job_id"], "question": question["name"], "answer": answer}
        assert call("answer_job", self.scene.core, OWNER, **given)["outcome"] == "answered"

    def transcript(self) -> list[tuple[str, str | None]]:
        run_id = self.scene.run()["id"]
        items = call("run_transcript", self.scene.core, OWNER, run_id=run_id)["items"]
        return [(each["kind"], each["text"]) for each in items]

    def sessions(self) -> list[dict[str, Any]]:
        files = sorted(self.state.glob("session-*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [json.loads(file.read_text()) for file in files]

    def hanging(self) -> int:
        file = self.state / "hanging"
        return int(until(lambda: file.exists() and file.read_text(), "the agent is working"))


def documented_agent() -> dict[str, Any]:
    """The agent of the guide, without its program."""
    guide = (ROOT / "docs" / "howto" / "agents.md").read_text()
    section = guide.split("## Agents that speak ACP", 1)[1]
    text = section.split("```toml", 1)[1].split("```", 1)[0]
    (table,) = tomllib.loads(text)["agents"].values()
    return {key: value for key, value in table.items() if key != "argv"}


@pytest.fixture
def acp(s: Scene) -> AcpScene:
    return AcpScene(s)


def test_work_with_a_permission_then_a_rejection_in_the_same_session(
    s: Scene, acp: AcpScene, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    acp.script(
        [
            {"plan": ["look", "write"]},
            {"say": "I begin."},
            *({"print": each} for each in NO_MESSAGES),
            {"permission": "Remove the build"},
            {"edit": "hello\n"},
            {"write_outside": str(outside)},
            {"cost": 0.25},
        ],
        [{"cost": 0.40}, {"say": "as a table"}],
        mode="careful",
        **documented_agent(),
        variables={"DETENT_URL": "http://127.0.0.1:9", "DETENT_TOKEN": "run-token"},
    )
    task_id = s.submit()
    with s.working():
        question = acp.question()
        assert (s.task().state, question["due_at"] is not None) == ("running", True)
        assert question["detail"]["options"] == ["Allow", "Allow always", "Reject"]
        assert question["detail"]["text"].startswith("May the agent do this? Remove the build")
        assert "rm -r build" in question["detail"]["text"]
        acp.answer(question, "Allow")
        s.rests("ready")
        assert s.result()["text"] == "refused: -32601"
        assert (s.work() / "made.txt").read_text() == "hello\n"
        assert not outside.exists()
        assert "no message" in s.output()
        items = acp.transcript()
        kinds = [kind for kind, _ in items]
        assert {"session", "message", "edit", "tool_result", "cost"} <= set(kinds)
        assert ("note", "Plan:\n[ ] look\n[ ] write") in items
        assert ("note", "Permission: yes-id") in items
        assert ("message", "chosen: yes-id") in items

        s.do(c.RejectTask(task_id, "Show it as a table.", run=True))
        s.rests("ready", rounds=1)
    assert s.result()["text"] == "as a table"
    assert "REPLAYED" not in s.output()
    [session] = acp.sessions()
    assert [text.split("\n")[0] for text in session["prompts"]] == [
        "Fix this: {",
        "Show it as a table.",
    ]
    assert [run["cost"] for run in s.runs()] == [250_000, 150_000]
    assert s.run()["tokens_in"] == 20
    assert session["mode"] == "careful"
    [server] = session["servers"]
    assert (server["type"], server["url"]) == ("http", "http://127.0.0.1:9/mcp")
    assert server["headers"][0]["value"] == "Bearer run-token"
    offered = json.loads((acp.state / "client.json").read_text())
    assert offered["terminal"] is False
    assert offered["fs"] == {"read_text_file": False, "write_text_file": False, "field_meta": None}


def test_a_refused_request_reaches_the_agent_and_an_expired_one_is_cancelled(
    s: Scene, acp: AcpScene
) -> None:
    runs = [[{"permission": "Remove the build"}]] * 2
    acp.script(*runs)
    s.submit()
    with s.working():
        acp.answer(acp.question(), "Reject")
        s.rests("ready")
        assert s.result()["text"] == "chosen: no-id"

    acp.script(*runs, permission_timeout_s=1.0)
    s.intent("impatient")
    s.submit(intent="impatient")
    with s.working():
        # The worker may find the due time first.
        until(lambda: keep(s.core.engine) or s.task().state == "failed", "the request has expired")
        s.rests("failed")
    assert s.run()["error_class"] == "needs_user"
    assert "not answered in time" in s.run()["error"]


@pytest.mark.parametrize("step", [{"permission": "Remove the build"}, {"hang": True}])
def test_a_cancelled_run_cancels_the_turn_then_ends_the_process(
    s: Scene, acp: AcpScene, step: Mapping[str, Any]
) -> None:
    """The first ends its turn when it is cancelled; the second must be ended."""
    acp.script([step])
    task_id = s.submit()
    with s.working():
        if "permission" in step:
            acp.question()
        else:
            acp.hanging()
        s.do(c.CancelTask(task_id))
        s.rests("cancelled")
    assert (acp.state / "cancelled").exists()
    assert call("inbox", s.core, OWNER)["questions"] == []
    assert Group(s.run()["id"]).members() == []


def test_a_killed_agent_continues_in_its_session(s: Scene, acp: AcpScene) -> None:
    acp.script(
        [{"edit": "first\n"}, {"hang": True}],
        [{"say": "continued"}],
        resumes=True,
    )
    s.intent(retry={"max_attempts": 2})
    s.submit()
    with s.working():
        os.kill(acp.hanging(), signal.SIGKILL)
        s.rests("ready")
    assert "was ended by SIGKILL without a result" in s.runs()[0]["error"]
    [session] = acp.sessions()
    assert len(session["prompts"]) == 2
    assert session["prompts"][1].startswith("Your previous execution failed")
    assert s.result()["text"] == "continued"


def test_an_agent_that_cannot_load_gets_a_new_session_with_the_history(
    s: Scene, acp: AcpScene
) -> None:
    acp.script([{"say": "one"}], [{"say": "two"}], loads=False)
    task_id = s.submit()
    with s.working():
        s.rests("ready")
        s.do(c.RejectTask(task_id, "Not yet.", run=True))
        s.rests("ready", rounds=1)
    _, second = acp.sessions()
    assert second["prompts"][0].startswith("Not yet.")
    assert "You have worked on this before" in second["prompts"][0]
    assert any("cannot load an earlier session" in note for note in s.notes())


ENDS: Mapping[str, tuple[Steps, Mapping[str, Any], str, str]] = {
    "exits": ([{"exit": 3}], {}, "error", "ended with exit code 3 without a result: out of ideas"),
    "error": ([{"fail": "API Error: 429"}], {}, "rate_limit", "API Error: 429"),
    "refusal": ([{"stop": "refusal"}], {}, "error", "failed (refusal)"),
    "version": ([], {"version": 7}, "needs_user", "version 7 of the Agent Client Protocol"),
    "mode": ([], {"mode": "bold"}, "needs_user", "it refuses the session mode 'bold'"),
    "not signed in": ([], {"signed_in": False}, "needs_user", "Sign the agent in"),
}


@pytest.mark.parametrize("case", ENDS)
def test_each_end_has_a_class_and_an_error(s: Scene, acp: AcpScene, case: str) -> None:
    steps, more, error_class, text = ENDS[case]
    acp.script(steps, **more)
    s.intent(retry={"max_attempts": 1})
    s.submit()
    with s.working():
        until(lambda: s.runs() and s.run()["error_class"], "the run has failed")
    assert s.run()["error_class"] == error_class
    assert text in s.run()["error"]


def test_costs_over_the_budget_end_the_turn(s: Scene, acp: AcpScene) -> None:
    acp.script([{"cost": 5.0}, {"hang": True}])
    s.submit(budget=1.0)
    with s.working():
        s.rests("budget_exceeded")
    assert (s.run()["error_class"], s.run()["cost"]) == ("budget", 5_000_000)
    assert (acp.state / "cancelled").exists()


def test_an_error_of_detent_ends_the_run_and_an_agent_that_stays(
    s: Scene, acp: AcpScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(AcpRun, "learn_session", fail)
    acp.script([], stays=True, linger_s=0.1)
    s.intent(retry={"max_attempts": 1})
    s.submit()
    with s.working():
        s.rests("failed")
    assert "the disk is full" in s.run()["error"]


def test_a_silent_agent_exceeds_the_idle_limit(s: Scene, acp: AcpScene) -> None:
    acp.script([], silent=True)
    s.intent(idle_timeout_s=600)
    s.submit()
    with s.working() as worker:
        until(lambda: s.runs() and s.run()["session_id"], "the agent was started")
        let_pass(worker, 601)
        s.rests("timed_out")
    assert s.run()["state"] == "timeout"
