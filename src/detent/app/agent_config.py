"""The configuration of an agent: `[agents.NAME]` merged into its preset, validated on load.

Errors name the key in the file. Pure: nothing is started, no file is opened.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from detent.allowed_hosts import allowed_hosts
from detent.app.agent_presets import FACTS, PRESETS, Table
from detent.errors import DetentError, Misconfigured
from detent.kernel import document_fields
from detent.kernel.retry import FailureClass

#: Placeholders of an argv, such as `{prompt}`, each a separate element. `args` becomes several.
PLACEHOLDERS = (
    "prompt",
    "prompt_file",
    "session_id",
    "resume_id",
    "budget",
    "model",
    "max_turns",
    "args",
    "directory",
    "run_dir",
    "config_dir",
)
#: Values that a rule for ends can match, in addition to the facts of lines.
SEEN = ("resumed", "end", "refusal", "exit_code", "stderr")
#: The session cannot be used: a new one is started, once.
NEW_SESSION = "new_session"
SUCCESS, COUNTS, DENIALS = ("line", "exit"), ("session", "run", "line"), ("fail", "ask")
#: How detent talks to the agent: it reads the lines that the agent prints, or speaks ACP with it.
PROTOCOLS = ("acp", "lines")
#: Who answers an ACP agent that requests permission: always yes, always no, or a person.
PERMISSIONS = ("allow", "refuse", "ask")
KEYS = (
    "preset",
    "argv",
    "args",
    "model",
    "max_turns",
    "environment",
    "variables",
    "secrets",
    "hosts",
    "success",
    "cost_counts",
    "lines",
    "ends",
    "reset_pattern",
    "retry_pattern",
    "denials",
    "quota_mb",
    "repos",
    "base",
    "linger_s",
    "longest_retry_s",
    "longest_silent_retry_s",
    "root_is_sandboxed",
    "protocol",
    "mode",
    "permissions",
    "permission_timeout_s",
)
LINE_KEYS = ("take", "when", "having", "lacking", "field", "value", "joined", "counts")
ENV = "env:"
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

Argv = tuple[str | tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class LineRule:
    """Takes one fact from the matching lines, from a field or a constant."""

    take: str
    when: Mapping[str, str]
    path: tuple[str, ...]
    value: Any = None
    joined: bool = False
    #: Fields that a line must have, and must not have.
    having: str | None = None
    lacking: str | None = None
    #: What a cost or a number of tokens is the total of; of tokens, the run by default.
    counts: str | None = None


@dataclass(frozen=True, slots=True)
class EndRule:
    """Classifies an end by patterns over the reported values."""

    when: Mapping[str, str]
    kind: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent command line, ready to be started."""

    name: str
    argv: Argv
    args: tuple[str, ...] = ()
    model: str | None = None
    max_turns: int | None = None
    environment: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Variable to reference: `env:NAME` or `file:/path`, resolved when a run starts.
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: Hosts of its provider, as `allowed_hosts` reads them; `env:NAME` is the host of a URL in the
    #: program's environment.
    hosts: tuple[str, ...] = ()
    success: str = "line"
    cost_counts: str = "run"
    lines: tuple[LineRule, ...] = ()
    ends: tuple[EndRule, ...] = ()
    reset_pattern: re.Pattern[str] | None = None
    #: Finds, in stderr, that the agent repeats a request; the groups `s` and `ms` say how long it
    #: waits before that.
    retry_pattern: re.Pattern[str] | None = None
    denials: str = "ask"
    quota_bytes: int | None = None
    #: Repositories, or directories of them, that a payload may name.
    repos: tuple[str, ...] = ()
    base: str | None = None
    #: How long a process may stay after it has reported its end.
    linger_s: float = 60.0
    #: How long the agent may wait before it repeats a request; one that waits longer is stopped.
    longest_retry_s: float = 10.0
    #: How long it may be silent after it has reported that it repeats a request, and not when.
    longest_silent_retry_s: float = 30.0
    root_is_sandboxed: bool = False
    protocol: str = "lines"
    #: The session mode of an ACP agent; None: the one that the agent chooses.
    mode: str | None = None
    permissions: str = "ask"
    #: How long a person may take to answer a request for permission; None: as long as the run.
    permission_timeout_s: float | None = None


def agent_from(name: str, tables: Mapping[str, Table]) -> Agent:
    """The agent with this name: a configured one, or an unchanged preset."""
    where = f"agents.{name}"
    if name not in tables and name not in PRESETS:
        known = ", ".join(sorted({*tables, *PRESETS}))
        raise Misconfigured(
            f"there is no agent {name!r}",
            setting=where,
            hint=f"Write [{where}] in detent.toml, or use one of: {known}.",
        )
    try:
        return _agent(name, tables.get(name, {}), where)
    except Misconfigured:
        raise
    except (DetentError, re.error) as error:
        raise Misconfigured(str(error).rstrip("."), setting=where) from None


def _agent(name: str, given: object, where: str) -> Agent:
    own = document_fields.table(given, where, KEYS)
    preset = own.get("preset", name if name in PRESETS else "plain")
    if preset not in PRESETS:
        raise document_fields.wrong(f"{where}.preset", f"one of {', '.join(PRESETS)}", preset)
    table: dict[str, Any] = {**PRESETS[str(preset)], **own}
    for key in ("variables", "secrets"):
        table[key] = {**PRESETS[str(preset)].get(key, {}), **_named(own, key, where)}
    quota = table.get("quota_mb")
    return Agent(
        name,
        _argv(table.get("argv"), f"{where}.argv"),
        **_overridable(table, where),
        environment=_texts(table, "environment", where),
        variables=table["variables"],
        secrets={
            key: check_reference(text, f"{where}.secrets.{key}")
            for key, text in table["secrets"].items()
        },
        hosts=_hosts(table, where),
        success=_one_of(table, "success", SUCCESS, where),
        cost_counts=_one_of(table, "cost_counts", COUNTS, where),
        lines=tuple(_line_rules(table.get("lines", ()), f"{where}.lines")),
        ends=tuple(_end_rules(table.get("ends", ()), f"{where}.ends")),
        reset_pattern=_pattern(table, "reset_pattern", where, groups=1),
        retry_pattern=_pattern(table, "retry_pattern", where),
        denials=_one_of(table, "denials", DENIALS, where),
        quota_bytes=None if quota is None else _number(quota, f"{where}.quota_mb") * 1_048_576,
        repos=_texts(table, "repos", where),
        base=_text(table, "base", where),
        linger_s=_seconds(table, "linger_s", where, 60.0),
        longest_retry_s=_seconds(table, "longest_retry_s", where, 10.0),
        longest_silent_retry_s=_seconds(table, "longest_silent_retry_s", where, 30.0),
        root_is_sandboxed=document_fields.flag(
            table.get("root_is_sandboxed", False), f"{where}.root_is_sandboxed"
        ),
        protocol=_one_of(table, "protocol", PROTOCOLS, where),
        mode=_text(table, "mode", where),
        permissions=_one_of(table, "permissions", PERMISSIONS, where),
        permission_timeout_s=_timeout_s(table, "permission_timeout_s", where),
    )


def overridden(agent: Agent, own: Mapping[str, Any], where: str) -> Agent:
    """The agent with the options that an intent overrides: its model, max_turns and args."""
    given = {"model": agent.model, "max_turns": agent.max_turns, "args": agent.args, **own}
    return replace(agent, **_overridable(given, where))


def _overridable(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    turns = table.get("max_turns")
    return {
        "args": _texts(table, "args", where),
        "model": _text(table, "model", where),
        "max_turns": None if turns is None else _number(turns, f"{where}.max_turns"),
    }


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    given = table.get(key)
    if given is not None and not (isinstance(given, str) and given):
        raise document_fields.wrong(f"{where}.{key}", "a string", given)
    return given


def _seconds(table: Mapping[str, Any], key: str, where: str, default: float) -> float:
    given = table.get(key, default)
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise document_fields.wrong(f"{where}.{key}", "a number of seconds from 0", given)
    return given


def _timeout_s(table: Mapping[str, Any], key: str, where: str) -> float | None:
    given = table.get(key)
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if given is not None and not (number and given > 0):
        raise document_fields.wrong(f"{where}.{key}", "a number of seconds above 0", given)
    return given


def _pattern(
    table: Mapping[str, Any], key: str, where: str, groups: int = 0
) -> re.Pattern[str] | None:
    given = _text(table, key, where)
    pattern = None if given is None else re.compile(given)
    if pattern is not None and pattern.groups < groups:
        wanted = r"a pattern with a group for the time, as in limit reached\|(\d+)"
        raise document_fields.wrong(f"{where}.{key}", wanted, given)
    return pattern


def _number(given: object, where: str) -> int:
    return document_fields.whole_number(given, where, 1, 1 << 40)


def _named(own: Mapping[str, object], key: str, where: str) -> Mapping[str, str]:
    table = document_fields.table(own.get(key, {}), f"{where}.{key}")
    for name, value in table.items():
        if not isinstance(value, str):
            raise document_fields.wrong(f"{where}.{key}.{name}", "a string", value)
    return {name: str(value) for name, value in table.items()}


def _texts(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    given = table.get(key, ())
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise document_fields.wrong(f"{where}.{key}", "a list of strings", given)
    return tuple(given)


def _hosts(table: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The hosts, checked; `env:NAME` is known only when a run starts."""
    hosts = _texts(table, "hosts", where)
    allowed_hosts((each for each in hosts if not each.startswith(ENV)), f"{where}.hosts")
    return hosts


def _one_of(table: Mapping[str, Any], key: str, allowed: Sequence[str], where: str) -> str:
    given = table.get(key, allowed[-1])
    if given not in allowed:
        raise document_fields.wrong(
            f"{where}.{key}", f"one of {', '.join(allowed)}", given, allowed
        )
    return str(given)


def check_reference(given: object, where: str) -> str:
    """A reference to a secret; Invalid if it is the secret itself, which is not repeated."""
    kind, _, rest = str(given).partition(":")
    if kind not in ("env", "file") or not rest:
        wanted = "a reference, env:NAME or file:/path, never the secret itself"
        raise document_fields.wrong(where, wanted, "[hidden]")
    return str(given)


# ---- argv ------------------------------------------------------------------------------------


def _argv(given: object, where: str) -> Argv:
    if not isinstance(given, list | tuple) or not given or not isinstance(given[0], str):
        raise document_fields.wrong(
            where, 'a list that begins with a program, as in ["claude", "-p"]', given
        )
    if PLACEHOLDER.search(given[0]) or not given[0]:
        raise document_fields.wrong(
            f"{where}[0]", "the program itself, not a placeholder", given[0]
        )
    made: list[str | tuple[str, ...]] = []
    for index, each in enumerate(given):
        group = each if isinstance(each, list | tuple) else [each]
        for part in group:
            _check_part(part, f"{where}[{index}]")
        made.append(each if isinstance(each, str) else tuple(group))
    return tuple(made)


def _check_part(part: object, where: str) -> None:
    if not isinstance(part, str):
        raise document_fields.wrong(where, "a string, or a list of strings that go together", part)
    named = PLACEHOLDER.fullmatch(part)
    if named is None and PLACEHOLDER.search(part):
        raise document_fields.wrong(where, "a placeholder as an element of its own", part)
    if named is not None and named[1] not in PLACEHOLDERS:
        raise document_fields.wrong(
            where, f"one of {', '.join(PLACEHOLDERS)} in braces", part, PLACEHOLDERS
        )


def filled(argv: Argv, values: Mapping[str, str | Sequence[str] | None]) -> list[str]:
    """The argv with values for its placeholders; a group with a missing value is left out."""
    made: list[str] = []
    for each in argv:
        group = (each,) if isinstance(each, str) else each
        parts = [_part(part, values) for part in group]
        if all(part is not None for part in parts):
            made += [text for part in parts for text in part or ()]
    return made


def _part(part: str, values: Mapping[str, str | Sequence[str] | None]) -> Sequence[str] | None:
    named = PLACEHOLDER.fullmatch(part)
    if named is None:
        return (part,)
    value = values.get(named[1])
    return (value,) if isinstance(value, str) else value


def with_placeholders(text: str, values: Mapping[str, str | Sequence[str] | None]) -> str:
    """The value of a variable, with its placeholders replaced."""
    return PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), text)


# ---- rules -----------------------------------------------------------------------------------


def _line_rules(given: object, where: str) -> Iterator[LineRule]:
    for index, row in enumerate(_rows(given, where)):
        at = f"{where}[{index}]"
        table = document_fields.table(row, at, LINE_KEYS)
        take = table.get("take")
        if take not in FACTS:
            raise document_fields.wrong(f"{at}.take", f"one of {', '.join(FACTS)}", take, FACTS)
        path = str(table.get("field", ""))
        yield LineRule(
            str(take),
            _patterns(table.get("when", {}), f"{at}.when"),
            tuple(path.split(".")) if path else (),
            table.get("value", True if take == "end" else None),
            document_fields.flag(table.get("joined", False), f"{at}.joined"),
            having=_path(table.get("having")),
            lacking=_path(table.get("lacking")),
            counts=_one_of(table, "counts", COUNTS, at) if "counts" in table else None,
        )


def _path(given: object) -> str | None:
    return None if given is None else str(given)


def _end_rules(given: object, where: str) -> Iterator[EndRule]:
    classes = (*FailureClass, NEW_SESSION)
    for index, row in enumerate(_rows(given, where)):
        at = f"{where}[{index}]"
        table = document_fields.table(row, at, ("when", "class", "hint"))
        kind = table.get("class")
        if kind not in classes:
            raise document_fields.wrong(
                f"{at}.class", f"one of {', '.join(classes)}", kind, classes
            )
        when = _patterns(table.get("when", {}), f"{at}.when", (*FACTS, *SEEN))
        yield EndRule(when, str(kind), str(table.get("hint", "")))


def _rows(given: object, where: str) -> Sequence[object]:
    if not isinstance(given, list | tuple):
        raise document_fields.wrong(where, "a list of tables", given)
    return given


def _patterns(given: object, where: str, allowed: Sequence[str] | None = None) -> Mapping[str, str]:
    table = document_fields.table(given, where, allowed)
    return {name: str(value) for name, value in table.items()}
