"""The agent presets: how an agent is started, its lines are parsed and its ends are classified.

A preset is a table in the format of `[agents.NAME]` in detent.toml, which overrides single keys of
it. This module contains only data.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Table = Mapping[str, Any]

#: The facts of lines. `cost` and the tokens are numbers; `end` marks the line that ends the work.
FACTS = (
    "session_id",
    "cost",
    "tokens_in",
    "tokens_out",
    "end",
    "is_error",
    "subtype",
    "status",
    "turns",
    "text",
    "error",
    "denials",
    "output",
    "retry_after_ms",
    "reset_at_s",
)

RESULT: Table = {"type": "result"}
SINCE = "model_usage_since_last_result"

#: The first matching row sets the failure class of an end. Patterns are shell patterns.
BY_STATUS: tuple[Table, ...] = (
    {"when": {"status": "401"}, "class": "needs_user", "hint": "Sign the agent in again."},
    {"when": {"status": "403"}, "class": "needs_user", "hint": "Its account may not do this."},
    {"when": {"status": "402"}, "class": "needs_user", "hint": "Its account has to be paid."},
    {"when": {"status": "429"}, "class": "rate_limit"},
    {"when": {"status": "529"}, "class": "rate_limit"},
    {"when": {"status": "408"}, "class": "network"},
    {"when": {"status": "5??"}, "class": "network"},
)

CLAUDE: Table = {
    "argv": [
        "claude",
        "-p",
        "{prompt}",
        "--output-format",
        "stream-json",
        "--verbose",
        ["--session-id", "{session_id}"],
        ["--resume", "{resume_id}"],
        ["--max-budget-usd", "{budget}"],
        ["--max-turns", "{max_turns}"],
        ["--model", "{model}"],
        "{args}",
    ],
    "environment": ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"],
    "variables": {
        # Transcripts, and therefore sessions, are stored here.
        "CLAUDE_CONFIG_DIR": "{config_dir}",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    "success": "line",
    "cost_counts": "run",
    "lines": [
        {"take": "session_id", "field": "session_id"},
        # In versions that report the cost since the last result, the total is that of the whole
        # session, also after it was resumed; in older ones it is that of the run.
        {"take": "cost", "field": "total_cost_usd", "having": SINCE, "counts": "session"},
        {"take": "cost", "field": "total_cost_usd", "lacking": SINCE},
        {"take": "tokens_in", "when": RESULT, "field": "usage.input_tokens"},
        {"take": "tokens_out", "when": RESULT, "field": "usage.output_tokens"},
        {"take": "end", "when": RESULT},
        {"take": "is_error", "when": RESULT, "field": "is_error"},
        {"take": "subtype", "when": RESULT, "field": "subtype"},
        {"take": "status", "when": RESULT, "field": "api_error_status"},
        {"take": "turns", "when": RESULT, "field": "num_turns"},
        {"take": "text", "when": RESULT, "field": "result"},
        {"take": "error", "when": RESULT, "field": "errors"},
        {"take": "denials", "when": RESULT, "field": "permission_denials"},
        {"take": "output", "when": RESULT, "field": "structured_output"},
        {
            "take": "retry_after_ms",
            "when": {"type": "system", "subtype": "api_retry"},
            "field": "retry_delay_ms",
        },
    ],
    "reset_pattern": r"limit reached\|(\d{9,11})",
    "ends": [
        {"when": {"subtype": "error_max_budget_usd"}, "class": "budget"},
        {
            "when": {"subtype": "error_max_turns"},
            "class": "error",
            "hint": "It used all turns that it may take; raise max_turns or make the work smaller.",
        },
        {
            "when": {"resumed": "yes", "subtype": "error_during_execution", "turns": "0"},
            "class": "new_session",
        },
        {"when": {"end": "no", "stderr": "*already in use*"}, "class": "new_session"},
        {"when": {"text": "*limit reached|*"}, "class": "rate_limit"},
        *BY_STATUS,
    ],
}

CODEX: Table = {
    "argv": [
        "codex",
        "exec",
        ["resume", "{resume_id}"],
        "--json",
        "--skip-git-repo-check",
        ["--model", "{model}"],
        "{args}",
        "{prompt}",
    ],
    "environment": ["OPENAI_API_KEY", "CODEX_API_KEY"],
    "variables": {"CODEX_HOME": "{config_dir}"},
    "success": "line",
    "cost_counts": "run",
    "lines": [
        {"take": "session_id", "when": {"type": "thread.started"}, "field": "thread_id"},
        {"take": "tokens_in", "when": {"type": "turn.completed"}, "field": "usage.input_tokens"},
        {"take": "tokens_out", "when": {"type": "turn.completed"}, "field": "usage.output_tokens"},
        {"take": "end", "when": {"type": "turn.completed"}},
        {"take": "is_error", "when": {"type": "turn.completed"}, "value": False},
        {"take": "end", "when": {"type": "turn.failed"}},
        {"take": "is_error", "when": {"type": "turn.failed"}, "value": True},
        {"take": "error", "when": {"type": "turn.failed"}, "field": "error.message"},
        {"take": "error", "when": {"type": "error"}, "field": "message"},
        {
            "take": "text",
            "when": {"type": "item.completed", "item.type": "agent_message"},
            "field": "item.text",
        },
    ],
    "ends": [
        {"when": {"error": "*401*"}, "class": "needs_user", "hint": "Sign the agent in again."},
        {"when": {"error": "*429*"}, "class": "rate_limit"},
        {"when": {"error": "*rate limit*"}, "class": "rate_limit"},
        {"when": {"error": "*stream disconnected*"}, "class": "network"},
        {"when": {"resumed": "yes", "end": "no", "stderr": "*not found*"}, "class": "new_session"},
    ],
}

GEMINI: Table = {
    "argv": [
        "gemini",
        "-p",
        "{prompt}",
        "--output-format",
        "stream-json",
        ["--resume", "{resume_id}"],
        ["--model", "{model}"],
        "{args}",
    ],
    "environment": ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    "success": "line",
    "cost_counts": "run",
    "lines": [
        {"take": "session_id", "when": {"type": "init"}, "field": "session_id"},
        {"take": "tokens_in", "when": RESULT, "field": "stats.input_tokens"},
        {"take": "tokens_out", "when": RESULT, "field": "stats.output_tokens"},
        {"take": "end", "when": RESULT},
        {"take": "is_error", "when": {"type": "result", "status": "success"}, "value": False},
        {"take": "is_error", "when": {"type": "result", "status": "error"}, "value": True},
        {"take": "error", "when": RESULT, "field": "error.message"},
        {
            "take": "text",
            "when": {"type": "message", "role": "assistant"},
            "field": "content",
            "joined": True,
        },
    ],
    "ends": [
        {"when": {"error": "*401*"}, "class": "needs_user", "hint": "Sign the agent in again."},
        {"when": {"error": "*429*"}, "class": "rate_limit"},
        {"when": {"error": "*RESOURCE_EXHAUSTED*"}, "class": "rate_limit"},
        {"when": {"exit_code": "53"}, "class": "error", "hint": "It used all turns that it had."},
    ],
}

#: Any program: exit code 0 is success, and its last output is the result. `argv` is required.
PLAIN: Table = {"success": "exit", "cost_counts": "run", "lines": [], "ends": []}

PRESETS: Mapping[str, Table] = MappingProxyType(
    {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "plain": PLAIN}
)
