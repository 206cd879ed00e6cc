"""The agent presets: how an agent is started, its lines are parsed and its ends are classified.

A preset is a table in the format of `[agents.NAME]` in detent.toml, which overrides single keys of
it. This module contains only tables.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

Table = Mapping[str, Any]

#: The facts of lines. `cost` and the tokens are numbers; `end` marks the line that ends the work.
FACTS = (
    "session_id",
    "cost",
    "tokens_in",
    "tokens_out",
    "model",
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
    "retry_after_s",
    "retry_status",
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

#: The same for an agent that was stopped because it waited too long to repeat a request.
BY_RETRY_STATUS: tuple[Table, ...] = tuple(
    {**row, "when": {"end": "no", "retry_status": row["when"]["status"]}} for row in BY_STATUS
)

SIGN_IN = "Sign the agent in, or configure its API key; then retry."
OTHER_VERSION_HINT = (
    "It does not know an option: it may be too old or too new. Install a version that was tested "
    "with detent, or set its argv; then retry."
)
OTHER_VERSION: tuple[Table, ...] = tuple(
    {"when": {"end": "no", "stderr": each}, "class": "needs_user", "hint": OTHER_VERSION_HINT}
    for each in ("*unknown option*", "*unexpected argument*", "*Unknown argument*")
)


def _counted(counts: str, take: str, when: Table, *fields: str) -> list[Table]:
    """Rules that count tokens. Each `line` adds to the others: of the cache, for example."""
    return [{"take": take, "when": when, "field": each, "counts": counts} for each in fields]


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
    "hosts": [
        "api.anthropic.com",
        "console.anthropic.com",
        "platform.claude.com",
        "env:ANTHROPIC_BASE_URL",
    ],
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
        {"take": "model", "when": {"type": "system", "subtype": "init"}, "field": "model"},
        # In versions that report the cost since the last result, the total is that of the whole
        # session, also after it was resumed; in older ones it is that of the run.
        {"take": "cost", "field": "total_cost_usd", "having": SINCE, "counts": "session"},
        {"take": "cost", "field": "total_cost_usd", "lacking": SINCE},
        {"take": "tokens_in", "when": RESULT, "field": "usage.input_tokens"},
        *_counted(
            "line",
            "tokens_in",
            RESULT,
            "usage.cache_creation_input_tokens",
            "usage.cache_read_input_tokens",
        ),
        {"take": "tokens_out", "when": RESULT, "field": "usage.output_tokens"},
        {"take": "end", "when": RESULT},
        {"take": "is_error", "when": RESULT, "field": "is_error"},
        {"take": "subtype", "when": RESULT, "field": "subtype"},
        {"take": "status", "when": RESULT, "field": "api_error"},
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
        {
            "take": "retry_status",
            "when": {"type": "system", "subtype": "api_retry"},
            "field": "error_status",
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
        {"when": {"status": "connection_*"}, "class": "network"},
        {"when": {"text": "*run /login*"}, "class": "needs_user", "hint": SIGN_IN},
        *BY_STATUS,
        *BY_RETRY_STATUS,
        *OTHER_VERSION,
    ],
}

TURN_COMPLETED: Table = {"type": "turn.completed"}


def _by_text(pattern: str, text: str = "error") -> Iterator[Table]:
    """The rows of `BY_STATUS` for an agent that writes the status into the text of its error."""
    for row in BY_STATUS:
        yield {**row, "when": {text: pattern.format(status=row["when"]["status"])}}


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
    "hosts": ["api.openai.com", "auth.openai.com", "chatgpt.com", "env:OPENAI_BASE_URL"],
    # The log says how long it waits before it repeats a request; its lines do not.
    "variables": {"CODEX_HOME": "{config_dir}", "RUST_LOG": "codex_core::responses_retry=warn"},
    "success": "line",
    "cost_counts": "run",
    "lines": [
        {"take": "session_id", "when": {"type": "thread.started"}, "field": "thread_id"},
        # The usage is that of the whole session, also after it was resumed.
        *_counted("session", "tokens_in", TURN_COMPLETED, "usage.input_tokens"),
        *_counted("session", "tokens_out", TURN_COMPLETED, "usage.output_tokens"),
        {"take": "end", "when": TURN_COMPLETED},
        {"take": "is_error", "when": TURN_COMPLETED, "value": False},
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
    "retry_pattern": r"retrying sampling request \(\d+/\d+ in (?P<s>[\d.]+)s\)",
    "ends": [
        *_by_text("*unexpected status {status} *", "refusal"),
        *_by_text("*last status: {status} *", "refusal"),
        {"when": {"refusal": "*"}, "class": "network"},
        *_by_text("*unexpected status {status} *"),
        *_by_text("*last status: {status} *"),
        {"when": {"error": "Missing environment*"}, "class": "needs_user", "hint": SIGN_IN},
        {"when": {"error": "*rate limit*"}, "class": "rate_limit"},
        {"when": {"error": "*usage limit*"}, "class": "rate_limit"},
        {"when": {"error": "*stream disconnected*"}, "class": "network"},
        {"when": {"error": "*error sending request*"}, "class": "network"},
        {"when": {"resumed": "yes", "end": "no", "stderr": "*not found*"}, "class": "new_session"},
        {
            "when": {"resumed": "yes", "end": "no", "stderr": "*no rollout found*"},
            "class": "new_session",
        },
        *OTHER_VERSION,
    ],
}

GEMINI: Table = {
    "argv": [
        "gemini",
        "-p",
        "{prompt}",
        "--output-format",
        "stream-json",
        "--skip-trust",
        ["--session-id", "{session_id}"],
        ["--resume", "{resume_id}"],
        ["--model", "{model}"],
        "{args}",
    ],
    "environment": ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    "hosts": [
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "oauth2.googleapis.com",
        "env:GOOGLE_GEMINI_BASE_URL",
    ],
    # Settings, credentials and sessions are stored here, in `.gemini`.
    "variables": {"GEMINI_CLI_HOME": "{config_dir}"},
    "success": "line",
    "cost_counts": "run",
    "lines": [
        {"take": "session_id", "when": {"type": "init"}, "field": "session_id"},
        {"take": "model", "when": {"type": "init"}, "field": "model"},
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
    "retry_pattern": r"Retrying after (?P<ms>\d+)ms",
    "ends": [
        # When it resumes a session with tool calls, it sends their results twice.
        {"when": {"resumed": "yes", "error": "*function response parts*"}, "class": "new_session"},
        {
            "when": {"resumed": "yes", "end": "no", "stderr": "*Error resuming session*"},
            "class": "new_session",
        },
        *_by_text('*"code":{status},*'),
        *_by_text('*"code": {status},*'),
        {"when": {"error": "*RESOURCE_EXHAUSTED*"}, "class": "rate_limit"},
        {"when": {"end": "no", "stderr": "*exhausted*"}, "class": "rate_limit"},
        {"when": {"end": "no", "stderr": "*overloaded*"}, "class": "rate_limit"},
        {"when": {"end": "no", "stderr": "*Retrying after*"}, "class": "network"},
        {"when": {"exit_code": "41"}, "class": "needs_user", "hint": SIGN_IN},
        {"when": {"exit_code": "53"}, "class": "error", "hint": "It used all turns that it had."},
        *OTHER_VERSION,
    ],
}

#: Any agent that speaks the Agent Client Protocol on its standard input and output; `argv` is
#: required. `subtype` is the reason of the end: a stop reason of the protocol, or one of detent.
ACP: Table = {
    "protocol": "acp",
    "success": "line",
    "cost_counts": "session",
    "linger_s": 5.0,
    "ends": [
        {"when": {"subtype": "no_session"}, "class": "new_session"},
        {
            "when": {"subtype": "auth_required"},
            "class": "needs_user",
            "hint": "Sign the agent in with its own program, or configure its API key.",
        },
        {
            "when": {"subtype": "protocol_version"},
            "class": "needs_user",
            "hint": "Install a version of the agent that speaks this version of the protocol.",
        },
        {
            "when": {"subtype": "mode"},
            "class": "needs_user",
            "hint": "Set its mode to one of those that it offers.",
        },
        {
            "when": {"subtype": "cancelled"},
            "class": "needs_user",
            "hint": "A request for permission was refused or not answered in time.",
        },
        {
            "when": {"subtype": "max_turn_requests"},
            "class": "error",
            "hint": "It used all turns that it may take; make the work smaller.",
        },
        {"when": {"error": "*401*"}, "class": "needs_user", "hint": "Sign the agent in again."},
        {"when": {"error": "*429*"}, "class": "rate_limit"},
        {"when": {"error": "*529*"}, "class": "rate_limit"},
        {"when": {"error": "*[Rr]ate limit*"}, "class": "rate_limit"},
        {"when": {"error": "*ECONNRE*"}, "class": "network"},
    ],
}

STEP_FINISH: Table = {"type": "step_finish"}
OPENCODE_ERROR: Table = {"type": "error"}
OPENCODE: Table = {
    "argv": [
        "opencode",
        "run",
        "--format",
        "json",
        # The log has the requests that it repeats; its lines do not.
        "--print-logs",
        "--log-level",
        "ERROR",
        ["--session", "{resume_id}"],
        ["--model", "{model}"],
        "{args}",
        "{prompt}",
    ],
    "environment": [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "OPENCODE_API_KEY",
    ],
    # Its own services; a provider that was configured needs its hosts too.
    "hosts": ["api.anthropic.com", "api.openai.com", "openrouter.ai", "opencode.ai", "models.dev"],
    "variables": {
        # Sessions and credentials are stored in the first one.
        "XDG_DATA_HOME": "{config_dir}/data",
        "XDG_CONFIG_HOME": "{config_dir}/config",
        "XDG_STATE_HOME": "{config_dir}/state",
        "XDG_CACHE_HOME": "{config_dir}/cache",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    },
    "success": "line",
    "cost_counts": "line",
    "lines": [
        {"take": "session_id", "field": "sessionID"},
        {"take": "cost", "when": STEP_FINISH, "field": "part.cost"},
        *_counted(
            "line",
            "tokens_in",
            STEP_FINISH,
            "part.tokens.input",
            "part.tokens.cache.read",
            "part.tokens.cache.write",
        ),
        *_counted("line", "tokens_out", STEP_FINISH, "part.tokens.output"),
        {"take": "text", "when": {"type": "text"}, "field": "part.text"},
        {"take": "end", "when": {"type": "step_finish", "part.reason": "stop"}},
        {
            "take": "is_error",
            "when": {"type": "step_finish", "part.reason": "stop"},
            "value": False,
        },
        {"take": "end", "when": OPENCODE_ERROR},
        {"take": "is_error", "when": OPENCODE_ERROR, "value": True},
        {"take": "subtype", "when": OPENCODE_ERROR, "field": "error.name"},
        {"take": "status", "when": OPENCODE_ERROR, "field": "error.data.statusCode"},
        {"take": "error", "when": OPENCODE_ERROR, "field": "error.data.message"},
        {
            "take": "retry_after_s",
            "when": OPENCODE_ERROR,
            "field": "error.data.responseHeaders.retry-after",
        },
    ],
    # The requests that make a title are small; it does not wait for them.
    "retry_pattern": r'message="stream error".* small=false',
    "ends": [
        {"when": {"refusal": "*[Rr]ate*limit*"}, "class": "rate_limit"},
        {"when": {"refusal": "*[Tt]oo many requests*"}, "class": "rate_limit"},
        {"when": {"refusal": "*[Oo]verloaded*"}, "class": "rate_limit"},
        {"when": {"refusal": "*"}, "class": "network"},
        {
            "when": {"resumed": "yes", "end": "no", "stderr": "*ession not found*"},
            "class": "new_session",
        },
        {
            "when": {"end": "no", "stderr": "*auto-rejecting*"},
            "class": "needs_user",
            "hint": "It was not allowed to use a tool: change its permissions, then retry.",
        },
        *BY_STATUS,
        *OTHER_VERSION,
    ],
}

#: Any program: exit code 0 is success, and its last output is the result. `argv` is required.
PLAIN: Table = {"success": "exit", "cost_counts": "run", "lines": [], "ends": []}

PRESETS: Mapping[str, Table] = MappingProxyType(
    {
        "acp": ACP,
        "claude": CLAUDE,
        "codex": CODEX,
        "gemini": GEMINI,
        "opencode": OPENCODE,
        "plain": PLAIN,
    }
)

#: By preset: the variables and the files of its configuration directory that can sign it in, and
#: the command that signs it in.
CREDENTIALS: Mapping[str, Table] = MappingProxyType(
    {
        "claude": {
            "variables": ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"),
            "files": (".credentials.json",),
            "sign_in": "claude",
        },
        "codex": {
            "variables": ("CODEX_API_KEY",),
            "files": ("auth.json",),
            "sign_in": "codex login",
        },
        "gemini": {
            "variables": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "files": (".gemini/oauth_creds.json",),
            "sign_in": "gemini",
        },
        "opencode": {
            "variables": OPENCODE["environment"],
            "files": ("data/opencode/auth.json",),
            "sign_in": "opencode auth login",
        },
    }
)
