"""Every way in which an agent's process can end, through a real worker and a real process."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from detent.kernel import commands as c
from detent.worker.runners.process_group import start_ticks
from tests.agents.scene import Scene, Step
from tests.worker.waiting import until

Ending = tuple[Sequence[Step], str, str | None, int | None, str]

#: What the agent does, the task's state, the run's error class, exit code, words of the error.
ENDS: dict[str, Ending] = {
    "success": ([{"say": "hello"}], "ready", None, 0, ""),
    "max turns": ([{"say": "a"}, {"say": "b"}, {"say": "c"}], "failed", "error", 1, "max_turns"),
    "api 401": ([{"api_error": 401}], "failed", "needs_user", 1, "401. Sign the agent in"),
    "api 500": ([{"api_error": 500}], "blocked", "network", 1, "status 500"),
    "api 400": ([{"api_error": 400}], "failed", "error", 1, "failed with status 400: API"),
    "error in work": (
        [{"finish": {"subtype": "error_during_execution", "is_error": True, "num_turns": 2}}],
        "failed",
        "error",
        1,
        "error_during_execution",
    ),
    "exit 0 without a result": ([{"exit": 0}], "failed", "error", 0, "without a result"),
    "SIGINT": ([{"kill": "SIGINT"}], "failed", "error", 0, "without a result"),
    "SIGTERM": ([{"kill": "SIGTERM"}], "failed", "error", 143, "was ended by SIGTERM"),
    "SIGKILL": ([{"kill": "SIGKILL"}], "failed", "error", -9, "was ended by SIGKILL"),
    "an option it does not know": (
        [{"stderr": "error: unknown option '--session-id'"}, {"exit": 1}],
        "failed",
        "needs_user",
        1,
        "'--session-id'. It does not know an option",
    ),
    "words on stderr": ([{"stderr": "no disk"}, {"exit": 3}], "failed", "error", 3, "no disk"),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_means_what_the_table_says(s: Scene, name: str) -> None:
    steps, state, error_class, exit_code, words = ENDS[name]
    s.script(steps, max_turns=2)
    s.submit()
    with s.working():
        s.rests(state)
    run = s.run()
    assert (run["error_class"], run["exit_code"]) == (error_class, exit_code)
    assert words in (run["error"] or "")


def test_success_keeps_last_words_summary_output_and_cost(s: Scene) -> None:
    end = {"finish": {"result": "all done", "structured_output": {"files": 2}}}
    s.script([{"say": "hi"}, {"cost": 0.25}, {"tokens": [7, 9]}, {"summary": "# Fixed"}, end])
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.result() == {
        "text": "all done",
        "summary": "# Fixed",
        "output": {"files": 2},
        "turns": 1,
    }
    run = s.run()
    assert (run["cost"], run["tokens_in"], run["tokens_out"]) == (250_000, 7, 9)
    assert s.task().spent == 250_000
    assert '"subtype": "init"' in s.output()


def test_the_session_is_stored_before_the_process_starts(s: Scene) -> None:
    s.script([{"echo": ["DETENT_SESSION_ID", "DETENT_TASK_ID", "DETENT_TOKEN"]}])
    task_id = s.submit()
    with s.working():
        s.rests("ready")
    session = s.task().session_id
    assert s.run()["session_id"] == session
    assert [each["id"] for each in s.sessions()] == [session]
    found = {"DETENT_SESSION_ID": session, "DETENT_TASK_ID": task_id, "DETENT_TOKEN": None}
    assert f'"found": {json.dumps(found)}' in s.output()
    names = s.names()
    assert names.index("session_opened") < names.index("run_joined") < names.index("run_succeeded")


# ---- money -----------------------------------------------------------------------------------


def test_the_agents_own_budget_ends_the_task(s: Scene) -> None:
    s.script([{"cost": 0.3}, {"cost": 0.3}, {"cost": 0.3}, {"say": "never"}])
    s.submit(budget=0.5)
    with s.working():
        s.rests("budget_exceeded")
    assert s.task().spent == 600_000
    assert s.run()["error_class"] == "budget"
    assert "error_max_budget_usd" in s.output()


def test_an_agent_that_spends_on_is_stopped(s: Scene) -> None:
    argv = [part for part in s.agent["argv"] if "--max-budget-usd" not in part]
    s.script([{"ignore": "SIGTERM"}, {"cost": 0.6}, {"hang": 60}], argv=argv)
    s.submit(budget=0.5)
    with s.working():
        s.rests("budget_exceeded")
    assert s.task().spent == 600_000
    assert "was stopped" in s.run()["error"]


def test_a_spent_part_of_a_shared_budget_is_followed_by_the_next(s: Scene) -> None:
    # Half of what is left: fifty cents at first, then twenty, with one subtask still to come.
    s.script([{"cost": 0.6}, {"say": "not reached"}], [{"cost": 0.1}, {"say": "done"}])
    s.app.intent("top")(lambda: None)
    s.app.intent("elsewhere")(lambda: None)
    parent = s.submit(payload={}, intent="top", budget=1.0)
    s.submit(payload={}, intent="elsewhere", parent_id=parent)  # no worker here executes it
    del s.app.intents["elsewhere"]
    s.submit(parent_id=parent)
    with s.working():
        s.rests("completed")
    assert [run["cost"] for run in s.runs()] == [600_000, 100_000]
    assert [run["outcome"] for run in s.runs()] == ["suspended", "done"]
    [session] = s.sessions()
    assert session["prompts"][1:] == ["Please continue where you left off."]


def test_a_shared_budget_that_is_gone_ends_the_task(s: Scene) -> None:
    s.script([{"cost": 0.6}, {"cost": 0.6}, {"say": "not reached"}])
    s.app.intent("top")(lambda: None)
    parent = s.submit(payload={}, intent="top", budget=1.0)
    s.submit(parent_id=parent)
    with s.working():
        s.rests("budget_exceeded")
    assert s.task().spent == 1_200_000


def test_a_decreasing_or_invalid_total_is_ignored(s: Scene) -> None:
    lies: list[Step] = [{"lie": 0.1}, {"lie": -5}, {"lie": "much"}, {"lie": 1e300}, {"lie": None}]
    s.script([{"cost": 0.4}, *lies, {"finish": {"total_cost_usd": 0.05}}])
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.run()["cost"] == 400_000
    notes = " ".join(s.notes())
    assert "went back" in notes
    assert "a reported cost was ignored" in notes


# ---- limits of others ------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 529])
def test_a_rate_limit_is_no_failure_and_waits_for_the_given_time(s: Scene, status: int) -> None:
    delay = {"retry_delay_ms": 3_600_000, "error_status": status}
    s.script([{"retry": delay}, {"api_error": status}])
    s.submit()
    with s.working():
        task = s.rests("blocked")
    assert task.blocked_by == "rate_limit"
    waits_us = task.blocked_detail["due_at"] - task.state_at
    assert 3_000_000_000 < waits_us <= 3_600_000_000


def test_an_agent_that_is_silent_after_a_refusal_is_stopped(s: Scene) -> None:
    rule = {"when": {"refusal": "*rate limit*"}, "class": "rate_limit"}
    silent = {"retry_pattern": "will repeat it", "longest_silent_retry_s": 0.2, "ends": [rule]}
    refusal: Step = {"stderr": "rate limit, will repeat it"}
    s.script([refusal, {"say": "It goes on."}, refusal, {"hang": 600}], **silent)
    s.submit()
    with s.working():
        task = s.rests("blocked")
    assert task.blocked_by == "rate_limit"
    assert "it printed nothing for 0.2 s after that: rate limit" in s.run()["error"]


def test_a_stated_reset_is_honoured(s: Scene) -> None:
    reset_s = int(time.time()) + 86_400
    text = f"Claude AI usage limit reached|{reset_s}"
    s.script([{"finish": {"is_error": True, "result": text}}])
    s.submit()
    with s.working():
        task = s.rests("blocked")
    assert task.blocked_by == "rate_limit"
    assert task.blocked_detail["due_at"] == reset_s * 1_000_000


# ---- denials ---------------------------------------------------------------------------------


def test_a_denied_tool_asks_a_person_who_keeps_the_result(s: Scene) -> None:
    s.script([{"deny": ["Bash", "Write", "Bash"]}, {"finish": {"result": "half of it"}}])
    task_id = s.submit()
    with s.working():
        task = s.rests("blocked")
        assert task.blocked_by == "needs_user"
        assert "Bash, Write" in task.blocked_detail["text"]
        s.do(c.AnswerTask(task_id, "keep"))
        s.rests("ready")
    assert s.result()["text"] == "half of it"
    assert len(s.prompts()) == 1  # no second process was started for it


def test_a_denied_tool_asks_a_person_who_lets_it_go_on(s: Scene) -> None:
    s.script([{"deny": ["Bash"]}], [{"finish": {"result": "all of it"}}])
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        s.do(c.AnswerTask(task_id, "go on"))
        s.rests("ready")
    assert s.result()["text"] == "all of it"
    assert "A person has reviewed" in s.prompts()[1]


def test_a_denied_tool_fails_by_policy(s: Scene) -> None:
    s.script([{"deny": ["Bash"]}], denials="fail")
    s.submit()
    with s.working():
        s.rests("failed")
    run = s.run()
    assert (run["error_class"], run["error"]) == (
        "needs_user",
        "The agent was not allowed to use Bash.",
    )


# ---- what cannot be started ------------------------------------------------------------------


def test_a_missing_program_needs_a_person_and_why_says_so(s: Scene) -> None:
    s.script([], argv=["no-such-agent", "{prompt}"])
    s.submit()
    with s.working():
        s.rests("failed")
    [reason] = s.why()
    assert (reason["reason"], reason["cleared_by"]) == ("failed", "a person")
    assert reason["detail"]["error_class"] == "needs_user"
    assert "no program 'no-such-agent'" in reason["detail"]["error"]


def test_a_prompt_without_its_field_says_which(s: Scene) -> None:
    s.script([])
    s.intent(prompt="Fix {payload.file} in {title}")
    s.submit({"other": 1})
    with s.working():
        s.rests("failed")
    assert "payload.file is missing" in s.run()["error"]


# ---- stopping --------------------------------------------------------------------------------


def test_a_cancel_ends_the_agent_and_its_grandchildren(s: Scene, tmp_path: Path) -> None:
    files = [tmp_path / "near", tmp_path / "far"]
    spawn: list[Any] = [{"spawn": {"pid_file": str(files[0])}}]
    spawn += [{"spawn": {"pid_file": str(files[1]), "escape": True}}]
    s.script([*spawn, {"ignore": "SIGTERM"}, {"say": "up"}, {"hang": 60}])
    task_id = s.submit()
    with s.working():
        until(lambda: all(file.exists() and file.read_text() for file in files), "children")
        s.do(c.CancelTask(task_id))
        s.rests("cancelled")
    assert [start_ticks(int(file.read_text())) for file in files] == [None, None]


def test_what_an_agent_leaves_running_is_ended_with_it(s: Scene, tmp_path: Path) -> None:
    file = tmp_path / "child"
    s.script([{"spawn": {"pid_file": str(file), "escape": True}}])
    s.submit()
    with s.working():
        s.rests("ready")
    assert start_ticks(int(file.read_text())) is None


def test_an_agent_that_stays_after_its_result_is_terminated(s: Scene) -> None:
    line = {"type": "result", "is_error": False, "subtype": "success", "result": "done"}
    s.script([{"raw": json.dumps(line) + "\n"}, {"hang": 60}], linger_s=0.2)
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.result()["text"] == "done"


def test_a_worker_that_stops_hands_back_and_the_next_goes_on(s: Scene) -> None:
    s.script([{"say": "half"}, {"hang": 60}], [{"say": "whole"}])
    s.submit()
    with s.working():
        until(lambda: s.sessions() and "half" in s.output(), "the agent began")
    with s.working():
        s.rests("ready")
    assert s.prompts()[1] == (
        "Your previous execution was interrupted. Please continue where you left off."
    )
    assert len(s.sessions()) == 1
