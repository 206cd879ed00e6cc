"""The cases that each agent command line goes through; each fails by an assertion."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.agent_clis.case_run import AFTER, BEFORE, BUG, FILE, CaseRun, wait_for
from tests.agent_clis.cli_profile import KILLED_STORY, WHOLE_STORY
from tests.agent_clis.whole_story import killed_story, whole_story
from verification.model_apis.model_script import Malformed, Refuse, Say, Stall, Step

DONE, AGAIN = "The value is right now.", "Both comments are done."
#: Longer than an agent may be silent after a refusal.
RESET_S = 45
#: How much earlier than the reset an attempt may be due, and how much later than without one.
SLACK_S, DELAY_S = 2, 10


def success(case: CaseRun) -> None:
    """The agent edits a file, and detent has its result, tokens, diff and transcript."""

    def steps(work: Path) -> Iterator[Step]:
        yield Step(case.cli.write(work / FILE, AFTER), sees=(f"Fix this: {BUG}",))
        yield Step(Say(DONE))

    case.start(steps)
    task = case.rests("ready")
    assert (case.work / FILE).read_text() == AFTER
    [run] = case.runs()
    assert (run["state"], run["session_id"]) == ("succeeded", task["session_id"])
    assert run["tokens_out"] > 0
    assert bool(run["cost"]) == case.cli.reports_cost
    assert case.detent.get(f"/api/jobs/{run['job_id']}")["result"]["text"] == DONE
    evidence = case.detent.get(f"/api/tasks/{case.task_id}/evidence")["items"]
    assert "changes.diff" in [each["file"] for each in evidence]
    _has_transcript(case)


def _has_transcript(case: CaseRun) -> None:
    """The transcript has the session, the edit, the message and the tokens; no raw lines."""
    items = case.transcript()
    kinds = {each["kind"] for each in items}
    assert {"session", "message", "cost"} <= kinds, items
    assert kinds & {"edit", "tool_call"}, items
    assert any(FILE in f"{each.get('path')}{each.get('input')}{each['text']}" for each in items)
    assert any(each["text"] == DONE for each in items if each["kind"] == "message"), items
    raw = [each["text"] for each in items if each["kind"] == "text"]
    assert not [text for text in raw if text.startswith("{")], raw


def question(case: CaseRun) -> None:
    """The agent asks through the MCP tool; the answer continues the session."""

    def steps(work: Path) -> Iterator[Step]:
        for each in case.cli.ask("Which branch?", ["main", "next"]):
            yield Step(each)
        yield Step(Say("I have asked."))
        yield case.resumed(case.cli.write(work / FILE, AFTER), "The answer: next")
        yield Step(Say(DONE))

    case.start(steps)
    task = case.rests("blocked")
    assert (task["blocked_by"], task["blocked_detail"]["text"]) == ("question", "Which branch?")
    case.answer("next")
    _continued(case, task, runs=2)


def _continued(case: CaseRun, before: Mapping[str, Any], runs: int) -> None:
    """The task is ready, after this many runs, all in one session if the agent can resume it."""
    task = case.rests("ready")
    assert case.script.is_over
    assert (case.work / FILE).read_text() == AFTER
    assert len(case.runs()) == runs
    if case.cli.resume_problem is None:
        assert {each["session_id"] for each in case.runs()} == {before["session_id"]}
    else:
        assert task["session_id"] != before["session_id"]


def permission_granted(case: CaseRun) -> None:
    """The agent may execute a command and does."""

    def steps(work: Path) -> Iterator[Step]:
        yield Step(case.cli.shell(f"printf granted > {work / 'granted.txt'}"))
        yield Step(Say(DONE))

    case.start(steps)
    case.rests("ready")
    assert (case.work / "granted.txt").read_text() == "granted"


def permission_refused(case: CaseRun) -> None:
    """The agent may not write: the file does not change, and a person decides if it is reported."""

    def steps(work: Path) -> Iterator[Step]:
        if case.cli.when_refused != "is not offered":
            yield Step(case.cli.write(work / FILE, AFTER))
        yield Step(Say("I was not allowed to write."))
        yield Step(Say("I could not do it."))

    case.start(steps, allowed=False)
    if case.cli.when_refused == "is not offered":
        case.rests("ready")
        [request] = case.model_requests()
        assert case.cli.write(case.work, "").tool not in case.script.api.tools(request.body)
    elif case.cli.when_refused == "goes on":
        case.rests("ready")
    elif case.cli.when_refused == "ends":
        case.rests("failed", "blocked")
        assert [kind for kind, _ in case.errors()] == ["needs_user"], case.errors()
    else:
        task = case.rests("blocked")
        assert task["blocked_by"] == "needs_user", task
        assert "was not allowed to use" in task["blocked_detail"]["text"]
        case.answer("keep")
        case.rests("ready")
    assert (case.work / FILE).read_text() == BEFORE


def budget(case: CaseRun) -> None:
    """The costs exceed the budget: the run ends with class budget."""

    def steps(work: Path) -> Iterator[Step]:
        for number in range(5):
            yield Step(case.cli.write(work / FILE, f"n = {number}\n"), tokens_out=20_000)
        yield Step(Say(DONE))

    case.start(steps, max_budget_usd=0.3)
    task = case.rests("budget_exceeded")
    assert task["spent"] > 0.3
    assert not case.script.is_over
    assert [kind for kind, _ in case.errors()] == ["budget"]


def turn_limit(case: CaseRun) -> None:
    """The agent has used its turns: the run fails and says so."""

    def steps(work: Path) -> Iterator[Step]:
        for number in range(5):
            yield Step(case.cli.write(work / FILE, f"n = {number}\n"))
        yield Step(Say(DONE))

    case.start(steps, max_turns=2)
    case.rests("failed")
    [(kind, error)] = case.errors()
    assert kind == "error"
    assert "turns" in error
    assert not case.script.is_over


def status_401(case: CaseRun) -> None:
    """The key is refused: a person has to act, and retries then."""
    _refused(case, Refuse(401))
    task = case.rests("failed", "blocked")
    assert [kind for kind, _ in case.errors()] == ["needs_user"], (task, case.errors())
    case.server.advance(case.name)
    assert case.detent.run("retry", case.task_id).returncode == 0
    case.rests("ready")


def _refused(case: CaseRun, refuse: Refuse | Malformed) -> None:
    def steps(work: Path) -> Iterator[Step]:
        yield Step(refuse)
        yield Step(case.cli.write(work / FILE, AFTER), fresh=True)
        yield Step(Say(DONE))

    case.start(steps)


def status_429(case: CaseRun) -> None:
    """A rate limit with a reset time: the next attempt is due then, and not earlier."""
    _refused(case, Refuse(429, reset_in_s=RESET_S))
    first = _first_failure(case)
    assert first["error_class"] == "rate_limit", case.errors()
    case.server.advance(case.name)
    if case.cli.reports_reset:
        due_s = _blocked(case)["detail"]["due_at"] / 1_000_000
        ended_s = datetime.fromisoformat(first["ended_at"]).timestamp()
        assert due_s >= case.script.reset_s - SLACK_S
        assert due_s <= max(case.script.reset_s, ended_s) + DELAY_S, (due_s, case.script.reset_s)
    _repeats(case)


def _blocked(case: CaseRun) -> dict[str, Any]:
    """The task as it was when it was last blocked."""
    events = case.detent.get(f"/api/tasks/{case.task_id}/events")["events"]
    return next(each["data"] for each in reversed(events) if each["name"] == "task_blocked")


def _first_failure(case: CaseRun) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = case.runs()
        return found[0] if found and found[0]["error"] is not None else None

    return wait_for(look, "the first run fails")


def status_529(case: CaseRun) -> None:
    """The provider is overloaded: the attempt is repeated later."""
    _refused(case, Refuse(529))
    _repeated(case, "rate_limit", "network")


def _repeated(case: CaseRun, *classes: str) -> None:
    """The first run failed with one of these classes; the next one succeeds."""
    first = _first_failure(case)
    assert first["error_class"] in classes, case.errors()
    case.server.advance(case.name)
    _repeats(case)


def _repeats(case: CaseRun) -> None:
    """The task waits, blocked, until its next attempt; that one succeeds."""
    wait_for(lambda: len(case.runs()) > 1, "the next attempt")
    case.rests("ready")


def malformed_stream(case: CaseRun) -> None:
    """The stream breaks off in the middle of an event: a clear failure, never a success."""
    _refused(case, Malformed())
    first = _first_failure(case)
    assert first["state"] == "failed"
    assert first["error"]
    case.server.advance(case.name)
    if case.detent.task(case.task_id)["state"] == "blocked":
        _repeats(case)
    elif case.rests("ready", "failed")["state"] == "failed":
        assert case.detent.run("retry", case.task_id).returncode == 0
        case.rests("ready")


def killed(case: CaseRun) -> None:
    """SIGKILL of detent and of the agent in mid-turn; the session continues after the start."""

    def steps(work: Path) -> Iterator[Step]:
        yield Step(case.cli.write(work / "half.txt", "half"), sees=(BUG,))
        yield Step(Stall())
        yield case.resumed(case.cli.write(work / FILE, AFTER), "was interrupted")
        yield Step(Say(DONE))

    case.start(steps)
    case.stalls()
    task = case.detent.task(case.task_id)
    case.kill_in_turn()
    case.detent.start()
    _continued(case, task, runs=2)


def cancel(case: CaseRun) -> None:
    """A person cancels in mid-turn: the agent's processes end, and the task is cancelled."""
    case.start(lambda _: [Step(Stall())])
    case.stalls()
    assert case.agent_processes()
    assert case.detent.run("cancel", case.task_id).returncode == 0
    case.rests("cancelled")
    wait_for(lambda: not case.agent_processes(), "the agent's processes end")
    assert [each["state"] for each in case.runs()] == ["cancelled"]


def rejected(case: CaseRun) -> None:
    """Two comments on lines: the same session gets both, and their cost is counted once."""

    def steps(work: Path) -> Iterator[Step]:
        yield Step(case.cli.write(work / FILE, "one = 1\ntwo = 2\n"))
        yield Step(Say("First version."))
        comments = ("Two things.", "One is not enough.", "Two is too much.")
        yield case.resumed(case.cli.write(work / FILE, AFTER), *comments)
        yield Step(Say(AGAIN))

    case.start(steps)
    task = case.rests("ready")
    case.request_changes("Two things.", "One is not enough.", "Two is too much.")
    wait_for(lambda: len(case.runs()) == 2, "the second run")
    _continued(case, task, runs=2)


def cost_counted_once(case: CaseRun) -> None:
    """Each run of a resumed session has the cost and the tokens that it has added."""
    rejected(case)
    first, second = case.runs()
    assert (first["tokens_out"], second["tokens_out"]) == (200, 200)
    if case.cli.reports_cost:
        assert first["cost"] > 0
        assert 0.5 < second["cost"] / first["cost"] < 2, (first["cost"], second["cost"])
    task = case.detent.task(case.task_id)
    assert abs(task["spent"] - (first["cost"] + second["cost"])) < 0.000_01


CASES: Mapping[str, Callable[[CaseRun], None]] = {
    "success, a file edited": success,
    "question through the MCP tool": question,
    "permission granted": permission_granted,
    "permission refused": permission_refused,
    "budget": budget,
    "turn limit": turn_limit,
    "status 401": status_401,
    "status 429 with a reset time": status_429,
    "status 529": status_529,
    "malformed stream": malformed_stream,
    "SIGKILL in mid-turn, then resume": killed,
    "cancel": cancel,
    "rejected with two line comments, then resume": rejected,
    "cost and tokens of a resumed session counted once": cost_counted_once,
    WHOLE_STORY: whole_story,
    KILLED_STORY: killed_story,
}
