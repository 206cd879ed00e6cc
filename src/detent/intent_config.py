"""The intents (task types) of an installation: those of its configuration, or the defaults."""

import sys
from collections.abc import Mapping
from typing import Any

from detent.errors import Misconfigured
from detent.suggestions import did_you_mean

#: The default intents: `detent init` writes them, and `detent up` uses them without a file.
STARTER: Mapping[str, Mapping[str, Any]] = {
    # Failed or missing tests are not retried: a person reads the report.
    "runQA": {"command": [sys.executable, "-m", "detent.qa"], "retry": {"retries": 0}},
    "fixBug": {"agent": "claude", "prompt": "Fix this bug: {payload}"},
    "refactor": {"agent": "claude", "prompt": "Refactor as asked: {payload}"},
    "review": {"agent": "claude", "prompt": "Review this: {payload}"},
    "summarize": {"agent": "claude", "prompt": "Summarize this: {payload}"},
    "optimizeSelf": {"agent": "claude", "prompt": "Improve your own instructions: {payload}"},
}
KINDS = ("command", "agent", "app")


def intents_from(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The intents of a configuration file; each has exactly one of `KINDS`."""
    named = _tables(tables, "intents", STARTER)
    for name, intent in named.items():
        ways = [kind for kind in KINDS if kind in intent]
        if len(ways) != 1:
            raise _not_one_kind(name, intent)
        if "command" in intent and not _is_argv(intent["command"]):
            raise Misconfigured(
                f'intents.{name}.command must be a list of strings, such as ["pytest", "-q"].',
                setting=f"intents.{name}.command",
            )
    return dict(named)


def _not_one_kind(name: str, intent: Mapping[str, Any]) -> Misconfigured:
    """The error for an intent without a kind, perhaps a misspelled one, or with several."""
    where = f"intents.{name}"
    message = f"{where} must have exactly one of {', '.join(KINDS)}."
    for key in intent:
        if key not in KINDS and (meant := did_you_mean(key, KINDS)):
            return Misconfigured(message, setting=where, hint=f"It has {where}.{key}. {meant[:-1]}")
    return Misconfigured(message, setting=where)


def agents_from(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The agents of a configuration file, `[agents.NAME]`."""
    return dict(_tables(tables, "agents", {}))


def _tables(
    tables: Mapping[str, Any], section: str, otherwise: Mapping[str, Any]
) -> Mapping[str, Mapping[str, Any]]:
    named = tables.get(section, otherwise)
    if not isinstance(named, Mapping) or not all(
        isinstance(each, Mapping) for each in named.values()
    ):
        raise Misconfigured(f"{section} must be tables, [{section}.NAME].", setting=section)
    return named


def _is_argv(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
