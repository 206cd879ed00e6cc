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


def test_tokens_of_the_cache_are_tokens_in() -> None:
    usage = {
        "input_tokens": 9,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 5_000,
    }
    result = {"type": "result", "usage": {**usage, "output_tokens": 4}}
    assert read(claude(), result, result).facts["tokens_in"] == 5_209


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
            {"huge": 100_000_000},
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


@pytest.mark.parametrize(
    ("message", "resumed", "kind"),
    [
        ('[API Error: {"error":{"code":401,"message":"no"}}]', False, "needs_user"),
        ('[API Error: [{"error": {"code": 429, "message": "no"}}]]', False, "rate_limit"),
        ('[API Error: {"error":{"code":503,"message":"no"}}]', False, "network"),
        ("the number of function response parts is wrong", True, "new_session"),
        ("the number of function response parts is wrong", False, "error"),
    ],
)
def test_an_error_of_gemini_is_classified(message: str, resumed: bool, kind: str) -> None:
    gemini = agent_from("gemini", {})
    bad = read(gemini, {"type": "result", "status": "error", "error": {"message": message}})
    assert end_of(gemini, bad, 1, resumed=resumed, now=0).kind == kind


def test_gemini_does_not_store_a_session_in_which_its_model_never_replied() -> None:
    gemini = agent_from("gemini", {})
    reader = Reader(gemini)
    reader.complain("Error resuming session: No previous sessions found for this project.")
    assert end_of(gemini, reader, 42, resumed=True, now=0).kind == "new_session"


def test_gemini_reports_on_stderr_how_long_it_waits() -> None:
    gemini = agent_from("gemini", {})
    begun, later = Reader(gemini), Reader(gemini)
    for reader in (begun, later):
        reader.complain("Attempt 1 failed: Resource has been exhausted.\nRetrying after 5760ms...")
    later.complain("\nAttempt 3 failed: Resource has been exhausted.. Retrying after 231")
    later.complain("17ms...")
    assert (begun.waits_too_long, later.waits_too_long) == (False, True)
    end = end_of(gemini, later, 143, resumed=False, now=0)
    assert (end.kind, end.reset_at) == ("rate_limit", 23_117_000)


@pytest.mark.parametrize(
    ("status", "kind"),
    [("429 Too Many Requests", "rate_limit"), ("503 Service Unavailable", "network")],
)
def test_codex_reports_in_its_log_how_long_it_waits(status: str, kind: str) -> None:
    codex = agent_from("codex", {})
    log = "WARN codex_core: retrying sampling request ({})... sampling_error={} \n"
    short, long = Reader(codex), Reader(codex)
    for each in (short, long):
        each.complain(log.format("1/5 in 204ms", "unexpected status 500 : no"))
        each.complain(log.format("2/5 in 9.5s", "unexpected status 500 : no"))
    long.complain(
        log.format("3/5 in 239.99879547s", f"exceeded retry limit, last status: {status}")
    )
    assert (short.waits_too_long, long.waits_too_long) == (False, True)
    end = end_of(codex, long, 143, resumed=True, now=0)
    assert end.kind == kind
    assert end.reset_at == 239_999_000


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("This request would exceed your account's rate limit.", "rate_limit"),
        ("Too many requests", "rate_limit"),
        ("Overloaded", "rate_limit"),
        ("Bad Gateway", "network"),
    ],
)
def test_opencode_reports_in_its_log_that_it_repeats_a_request(error: str, kind: str) -> None:
    opencode = agent_from("opencode", {})
    log = 'level=ERROR message="stream error" small={} error.error="AI_APICallError: {}"\n'
    reader, repeats = Reader(opencode), []
    for small in ("true", "false"):  # it does not wait for a title, which is small
        reader.complain(log.format(small, error))
        repeats.append(reader.is_repeating)
    reader.read(b'{"type": "step_start"}')  # it goes on
    assert [*repeats, reader.is_repeating] == [False, True, False]
    reader.complain(log.format("false", error))
    reader.was_silent = True
    end = end_of(opencode, reader, 143, resumed=False, now=0)
    assert (end.kind, end.reset_at) == (kind, None)
    assert "it printed nothing for 30 s after that" in end.text


@pytest.mark.parametrize(
    ("name", "stderr"),
    [
        ("claude", "error: unknown option '--session-id'"),
        ("codex", "error: unexpected argument '--json' found"),
        ("gemini", "Usage: gemini [options]\n\nUnknown arguments: session-id, sessionId"),
        ("opencode", "opencode run [message..]\n\nUnknown arguments: print-logs, printLogs"),
    ],
)
def test_a_version_that_does_not_know_an_option_needs_a_person(name: str, stderr: str) -> None:
    agent = agent_from(name, {})
    reader = Reader(agent)
    reader.complain(stderr)
    end = end_of(agent, reader, 1, resumed=True, now=0)
    assert end.kind == "needs_user"
    assert "It does not know an option: it may be too old or too new." in end.text


def test_an_agent_that_is_not_signed_in_needs_a_person() -> None:
    claude_line = {
        "type": "result",
        "is_error": True,
        "result": "Not logged in · Please run /login",
    }
    message = "Missing environment variable: `CODEX_API_KEY`."
    gemini = Reader(agent_from("gemini", {}))
    gemini.complain(
        "When using Gemini API, you must specify the GEMINI_API_KEY environment variable."
    )
    error = {"name": "APIError", "data": {"message": "invalid x-api-key", "statusCode": 401}}
    found = [
        (read(claude(), claude_line), 1),
        (read(agent_from("codex", {}), {"type": "turn.failed", "error": {"message": message}}), 1),
        (gemini, 41),
        (read(agent_from("opencode", {}), {"type": "error", "error": error}), 1),
    ]
    for reader, code in found:
        end = end_of(reader.agent, reader, code, resumed=False, now=0)
        assert end.kind == "needs_user", reader.agent.name
        assert "Sign the agent in" in end.text


def test_codex_does_not_store_a_session_that_was_lost_before_its_first_turn() -> None:
    codex = agent_from("codex", {})
    reader = Reader(codex)
    reader.complain("Error: thread/resume: thread/resume failed: no rollout found for thread id 1")
    assert end_of(codex, reader, 1, resumed=True, now=0).kind == "new_session"


def test_opencode_lines_are_read_by_its_preset() -> None:
    opencode = agent_from("opencode", {})
    step = {"type": "step_finish", "sessionID": "ses_1"}
    cache = {"read": 300, "write": 4}
    part = {"cost": 0.25, "tokens": {"input": 10, "output": 2, "cache": cache}}
    good = read(
        opencode,
        {**step, "part": {**part, "reason": "tool-calls"}},
        {"type": "text", "sessionID": "ses_1", "part": {"text": "done"}},
        {**step, "part": {**part, "reason": "stop"}},
    )
    assert end_of(opencode, good, 0, resumed=False, now=0).kind is None
    assert (good.facts["text"], good.facts["tokens_in"]) == ("done", 628)
    assert good.costs == [(0.25, "line"), (0.25, "line")]
    data = {"message": "slow", "statusCode": 429, "responseHeaders": {"retry-after": "30"}}
    bad = read(opencode, {"type": "error", "sessionID": "ses_1", "error": {"data": data}})
    end = end_of(opencode, bad, 1, resumed=False, now=0)
    assert (end.kind, end.reset_at) == ("rate_limit", 30_000_000)
    refused = read(opencode)
    refused.complain("! permission requested: edit (code.py); auto-rejecting")
    assert end_of(opencode, refused, 0, resumed=False, now=0).kind == "needs_user"


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


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "rate_limit"), (401, "needs_user"), (503, "network"), (None, "error")],
)
def test_an_agent_that_waits_too_long_to_repeat_a_request_is_classified_by_its_status(
    status: int | None, kind: str
) -> None:
    retry = {"type": "system", "subtype": "api_retry", "error_status": status}
    short = read(claude(), {**retry, "retry_delay_ms": 9_000})
    assert not short.waits_too_long
    reader = read(claude(), {**retry, "retry_delay_ms": 38_000})
    assert reader.waits_too_long
    end = end_of(claude(), reader, 143, resumed=True, now=1_000_000)
    assert (end.kind, end.reset_at) == (kind, 39_000_000)
    assert "it waited 38000 ms to repeat a request" in end.text
    result = {"type": "result", "is_error": False}
    assert not read(claude(), {**retry, "retry_delay_ms": 38_000}, result).waits_too_long


def test_a_lost_connection_is_of_class_network() -> None:
    result = {"type": "result", "is_error": True, "api_error_status": None}
    end = end_of(
        claude(),
        read(claude(), {**result, "api_error": "connection_failed"}),
        1,
        resumed=False,
        now=0,
    )
    assert end.kind == "network"


def test_codex_counts_the_tokens_of_its_whole_session() -> None:
    codex = agent_from("codex", {})
    usage = {"input_tokens": 4_000, "output_tokens": 400}
    line = json.dumps({"type": "turn.completed", "usage": usage}).encode()
    resumed = Reader(codex, {"tokens_in": 1_500, "tokens_out": 150})
    resumed.read(line)
    assert (resumed.facts["tokens_in"], resumed.facts["tokens_out"]) == (2_500, 250)
    assert read(codex, line).facts["tokens_out"] == 400


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 401 Unauthorized: no, url: http://127.0.0.1:1/v1", "needs_user"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("unexpected status 529 <unknown status code>: busy", "rate_limit"),
        ("unexpected status 502 Bad Gateway: none", "network"),
        ("You've hit your usage limit. Try again at 3:45 PM.", "rate_limit"),
        ("stream disconnected before completion: stream closed", "network"),
        # The number of a port is no status.
        ("unexpected status 400 Bad Request: no, url: http://127.0.0.1:40129/v1", "error"),
    ],
)
def test_codex_writes_the_status_into_its_error(message: str, kind: str) -> None:
    codex = agent_from("codex", {})
    reader = read(codex, {"type": "turn.failed", "error": {"message": message}})
    assert end_of(codex, reader, 1, resumed=False, now=0).kind == kind
