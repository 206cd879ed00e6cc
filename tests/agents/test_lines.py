"""Output that is hostile or broken: it neither breaks the runner nor grows it; rules read it."""

import json
import resource
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.app.agent_config import Agent, agent_from
from detent.kernel import commands as c
from detent.worker.runners.agent.exit_status import end_of
from detent.worker.runners.agent.output_parser import MAX_SHOWN, Lines, Reader
from tests.agents.scene import Scene
from tests.worker.waiting import until


def claude() -> Agent:
    return agent_from("claude", {})


def read(agent: Agent, *lines: dict[str, Any] | bytes) -> Reader:
    reader = Reader(agent)
    for line in lines:
        reader.read(line if isinstance(line, bytes) else json.dumps(line).encode())
    return reader


# ---- lines -----------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=30)), st.integers(min_value=1, max_value=7))
def test_lines_come_out_as_they_went_in_however_they_are_cut(parts: list[bytes], size: int) -> None:
    data = b"\n".join(parts)
    lines, found = Lines(), []
    for at in range(0, len(data), size):
        found += [line for line, whole in lines.feed(data[at : at + size]) if whole]
    found += [line for line, _ in lines.end()]
    wanted = data.split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])


def test_a_long_line_is_passed_over_and_counted() -> None:
    lines = Lines(most=100)
    found = [each for _ in range(50) for each in lines.feed(b"x" * 50)]
    assert found == []
    assert sum(map(len, lines._parts)) <= MAX_SHOWN
    found = list(lines.feed(b"\nshort\n"))
    assert [(len(line), whole) for line, whole in found] == [(100, False), (5, True)]
    assert lines.too_long == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"plain words",
        b"[1, 2]",
        b'{"type": "result"',
        b'{"type": "result", "is_error": NaN}',
        b"\xff\xfe\x00",
        b'{"a": "\xff"}',
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'{"type": ["result"], "usage": 3, "session_id": {"a": 1}}',
        b'{"type": "unheard_of", "x": 1}',
    ],
)
def test_what_is_no_line_of_ours_says_nothing(line: bytes) -> None:
    reader = read(claude(), line)
    assert not reader.ended
    assert reader.costs == []


def test_a_total_is_the_sessions_only_where_the_agent_tells_what_is_new() -> None:
    old = {"type": "result", "total_cost_usd": 0.5}
    reader = read(claude(), old, {**old, "model_usage_since_last_result": {}})
    assert reader.costs == [(0.5, "run"), (0.5, "session")]


def test_fields_of_the_wrong_type_are_not_there() -> None:
    usage = {"input_tokens": "many", "output_tokens": -4}
    reader = read(claude(), {"type": "result", "is_error": "false", "usage": usage, "result": 3})
    assert reader.ended
    assert "tokens_in" not in reader.facts
    assert "text" not in reader.facts
    # Only a plain false is success.
    assert end_of(claude(), reader, 0, resumed=False, now=0).kind == "error"


# ---- the process -----------------------------------------------------------------------------


def test_floods_huge_lines_and_rubbish_neither_break_nor_grow(s: Scene) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    s.script(
        [
            {"huge": 40_000_000},
            {"flood": 30_000_000},
            {"hex": "fffe00c3280a"},
            {"raw": '{"type": "result", \n'},
            {"raw": '{"type": "assistant"} trailing\n'},
            {"cost": 0.1},
            {"finish": {"result": "still here"}},
        ]
    )
    s.submit()
    with s.working():
        s.rests("ready")
    assert s.result()["text"] == "still here"
    assert s.run()["cost"] == 100_000
    assert any("too long" in note for note in s.notes())
    output = s.core.settings.data_dir / "runs" / s.run()["id"] / "output.log"
    assert output.stat().st_size < s.core.settings.worker_output_limit + 1_000
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 60_000


def test_an_endless_flood_can_be_cancelled(s: Scene) -> None:
    s.script([{"ignore": "SIGTERM"}, {"flood": 10**12}])
    task_id = s.submit()
    with s.working():
        until(lambda: s.sessions() and s.runs() and len(s.output()) > 1_000, "it floods")
        s.do(c.CancelTask(task_id))
        s.rests("cancelled")


def test_a_flood_without_a_sign_of_the_end_times_out(s: Scene) -> None:
    s.script([{"flood": 10**12}])
    s.intent(timeout_s=0.5)
    s.submit()
    with s.working():
        s.rests("timed_out")


def test_a_secret_is_nowhere_in_what_is_kept(s: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = 'hush"hush-4711'
    monkeypatch.setenv("VAULT", secret)
    s.script(
        [
            {"echo": ["AGENT_KEY"]},
            {"stderr": f"using {secret}\n"},
            {"summary": f"I used {secret}"},
            {"ask": {"text": f"Is {secret} right?", "options": [secret, "no"]}},
        ],
        secrets={"AGENT_KEY": "env:VAULT"},
    )
    s.submit()
    with s.working():
        task = s.rests("blocked")
    assert task.blocked_detail["text"] == "Is [secret] right?"
    kept = s.output() + "".join(each.data for each in s.events())
    assert secret not in kept
    assert json.dumps(secret)[1:-1] not in kept
    assert '"AGENT_KEY": "[secret]"' in s.output()


# ---- other command lines ---------------------------------------------------------------------


def test_codex_lines_are_read_by_its_preset() -> None:
    codex = agent_from("codex", {})
    good = read(
        codex,
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
        {"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 4}},
    )
    end = end_of(codex, good, 0, resumed=False, now=0)
    assert end.kind is None
    assert good.facts["session_id"] == "t-1"
    assert (good.facts["text"], good.facts["tokens_out"]) == ("done", 4)
    message = "exceeded retry limit, last status: 429 Too Many Requests"
    bad = read(codex, {"type": "turn.failed", "error": {"message": message}})
    assert end_of(codex, bad, 1, resumed=False, now=0).kind == "rate_limit"
    assert end_of(codex, read(codex), 0, resumed=False, now=0).kind == "error"


def test_gemini_lines_are_read_by_its_preset() -> None:
    gemini = agent_from("gemini", {})
    good = read(
        gemini,
        {"type": "init", "session_id": "g-1", "model": "m"},
        {"type": "message", "role": "user", "content": "question"},
        {"type": "message", "role": "assistant", "content": "do", "delta": True},
        {"type": "message", "role": "assistant", "content": "ne", "delta": True},
        {"type": "result", "status": "success", "stats": {"input_tokens": 5, "output_tokens": 6}},
    )
    assert end_of(gemini, good, 0, resumed=False, now=0).kind is None
    assert (good.facts["text"], good.facts["tokens_in"]) == ("done", 5)
    bad = read(gemini, {"type": "result", "status": "error", "error": {"message": "401"}})
    assert end_of(gemini, bad, 1, resumed=False, now=0).kind == "needs_user"


OTHER = """
import json, os, sys
resumed = sys.argv[1] == "resume"
say = lambda **line: print(json.dumps(line), flush=True)
say(type="thread.started", thread_id="thread-9")
if not resumed:
    open(os.environ["DETENT_QUESTION_FILE"], "w").write('{"text": "Go on?"}')
say(type="item.completed", item={"type": "agent_message", "text": " ".join(sys.argv[1:])})
say(type="turn.completed", usage={"input_tokens": 1, "output_tokens": 2})
"""


def test_a_session_id_that_the_agent_chooses_is_learned(s: Scene) -> None:
    program = [s.argv()[0], "-c", OTHER]
    s.script([], preset="codex", argv=[*program, ["resume", "{resume_id}"], "--json", "{prompt}"])
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        assert s.task().session_id == "thread-9"
        s.do(c.AnswerTask(task_id, "yes"))
        s.rests("ready")
    assert s.result()["text"].startswith("resume thread-9 --json You asked: Go on?")
    assert {run["session_id"] for run in s.runs()} == {"thread-9"}


def test_a_plain_command_succeeds_by_its_exit_code(s: Scene) -> None:
    code = "import sys; print('did', sys.argv[1])"
    s.script([], preset="plain", argv=[s.argv()[0], "-c", code, "{prompt}"], cost_counts="run")
    s.agent.pop("variables")
    s.intent(prompt="{title}: {payload.bug}")
    s.submit({"bug": "a leak"})
    with s.working():
        s.rests("ready")
    assert s.result()["text"].startswith("did the bug: a leak\n\nHow to work with detent:")
