"""Determines how an agent's process ended: success, or a failure class with a message.

The agent's rules define success: a line that reports it, or exit code 0. Pure.
"""

import re
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from detent.app.agent_config import Agent, EndRule
from detent.kernel.retry import FailureClass
from detent.redaction import redact
from detent.worker.run_outcome import LONGEST_ERROR
from detent.worker.runners.agent.output_parser import Reader, matches

MS_US, S_US = 1_000, 1_000_000
#: Exit codes by which a shell, and many programs, report the signal that ended them.
BY_SIGNAL = 128
LONGEST_WORDS = 600
#: What the group of a `reset_pattern` has to find.
UNIX_TIME = re.compile(r"\d{1,11}", re.ASCII)


class End(NamedTuple):
    """`kind` is None for success, otherwise a failure class or `new_session`."""

    kind: str | None
    exit_code: int
    facts: Mapping[str, Any]
    text: str = ""
    reset_at: int | None = None


def end_of(agent: Agent, reader: Reader, exit_code: int, *, resumed: bool, now: int) -> End:
    """Classify the end of the process."""
    if _went_well(agent, reader, exit_code):
        return End(None, exit_code, reader.facts)
    seen = reader.seen(exit_code, resumed)
    rule = next((each for each in agent.ends if matches(each.when, seen)), None)
    kind = FailureClass.ERROR.value if rule is None else rule.kind
    text = _words(agent, reader, exit_code, rule)
    return End(kind, exit_code, reader.facts, text, _reset_at(agent, reader, now))


def _went_well(agent: Agent, reader: Reader, exit_code: int) -> bool:
    if agent.success == "exit":
        return exit_code == 0
    return reader.ended and reader.facts.get("is_error") is False


def _words(agent: Agent, reader: Reader, exit_code: int, rule: EndRule | None) -> str:
    seen = reader.seen(exit_code, resumed=False)
    if reader.ended:
        status = f" with status {seen['status']}" if seen.get("status", "None") != "None" else ""
        subtype = seen.get("subtype", "error")
        # Claude Code names the end of its turn so, also if its provider refused the request.
        how = f"failed{status}" + (f" ({subtype})" if subtype != "success" else "")
        words = seen.get("error") or seen.get("text") or ""
    elif reader.has_waited:
        how = f"was stopped: {_wait(agent, seen)}"
        words = seen.get("error") or reader.refusal
    else:
        how = f"{_exit(exit_code)} without a result"
        words = seen.get("error") or reader.stderr
    words = redact(words.strip())[-LONGEST_WORDS:]
    text = f"the agent {agent.name} {how}" + (f": {words}" if words else ".")
    if rule is not None and rule.hint:
        text += f" {rule.hint}" if text.endswith((".", "!", "?")) else f". {rule.hint}"
    return text[:LONGEST_ERROR]


def _wait(agent: Agent, seen: Mapping[str, str]) -> str:
    """How it waited to repeat a request."""
    if "retry_after_ms" not in seen:
        return (
            "its provider refused a request, and it printed nothing for "
            f"{agent.longest_silent_retry_s:g} s after that"
        )
    status = f" after status {seen['retry_status']}" if "retry_status" in seen else ""
    return f"it waited {seen['retry_after_ms']} ms to repeat a request{status}"


def _exit(code: int) -> str:
    number = -code if code < 0 else code - BY_SIGNAL
    try:
        return f"was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"ended with exit code {code}"


def _reset_at(agent: Agent, reader: Reader, now: int) -> int | None:
    """When a rate limit ends, if the agent reported it: a time, or a delay."""
    facts = reader.facts
    if "reset_at_s" in facts:
        return int(facts["reset_at_s"]) * S_US
    stated = agent.reset_pattern.search(str(facts.get("text", ""))) if agent.reset_pattern else None
    if stated is not None and UNIX_TIME.fullmatch(stated[1] or ""):
        return int(stated[1]) * S_US
    if "retry_after_s" in facts:
        return now + int(facts["retry_after_s"]) * S_US
    return now + int(facts["retry_after_ms"]) * MS_US if "retry_after_ms" in facts else None
