"""Writes the reference pages of what users touch: commands, HTTP, settings, events, couplings.

`tools.generate` writes what PAGES names; nothing here touches a file.
"""

import dataclasses
from collections.abc import Callable, Mapping

import click

from detent.cli.main import COMMANDS, cli
from detent.error_codes import EXIT_CODES
from detent.kernel.couplings import DOWN, UP
from detent.kernel.draft import Coupling
from detent.kernel.events import EVENTS, Event
from detent.operations import OPERATIONS
from detent.settings import Settings, name
from tools.reference import table


def settings() -> str:
    """Every setting with its default, unit and meaning."""
    rows = []
    for each in dataclasses.fields(Settings):
        default = ", ".join(each.default) if isinstance(each.default, tuple) else each.default
        meaning, unit = each.metadata["meaning"], each.metadata["unit"]
        variable = f"`DETENT_{each.name.upper()}`"
        rows.append((f"`{name(each.name)}`", variable, f"`{default}`", unit, meaning))
    headings = ("setting", "environment", "default", "unit", "meaning")
    return "\n".join([SETTINGS, table(headings, rows)])


SETTINGS = """\
# Settings

A flag wins over the environment, the environment over `detent.toml`, the file over the default. In
the file a setting is in the section before the dot: `gateway.port` is `port` in `[gateway]`.
The file is looked for in the working directory and above it.
"""


def events() -> str:
    """Every event of the log with its fields."""
    sections = [EVENTS_INTRODUCTION]
    for level in ("task", "job", "run", "step", "wait", "signal", "checkpoint", "limit"):
        rows = [_event(each) for each in EVENTS.values() if each.level == level]
        sections += [f"## Of a {level}\n", table(("event", "fields", "meaning"), rows)]
    return "\n".join(sections)


def _event(each: type[Event]) -> tuple[str, str, str]:
    fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(each))  # type: ignore[arg-type]
    doc = each.__doc__ or ""
    meaning = "" if doc.startswith(each.__name__ + "(") else " ".join(doc.split())
    return f"`{each.name}`", fields, meaning


EVENTS_INTRODUCTION = """\
# Events

The log holds these events, and nothing else changes a row. Each is in a stream, the task's or
the job's, with its position, version, time and actor; runs, steps, waits, signals and checkpoints
belong to their job's stream. Pauses and limits belong to the whole installation, whose stream is
`@system`. The events that move a state are those of the
[lifecycles](lifecycles.md).
"""


def couplings() -> str:
    """How the levels pull on each other, row by row."""
    sections = [COUPLINGS]
    for title, rows in (
        ("Up: from a child to its parent", UP),
        ("Down: from a parent to its child", DOWN),
    ):
        sections += [f"## {title}\n", table(("when", "and", "then"), map(_coupling, rows))]
    return "\n".join(sections)


def _coupling(row: Coupling) -> tuple[str, str, str]:
    return f"`{row.when.name}`", _words(row.given), _words(row.then)


def _words(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", " ")


COUPLINGS = """\
# Couplings

What an event at one level brings about at another. The rows of an event are asked in this order,
all of them before any takes effect, and everything happens in the transaction of the command. A
consequence that the lifecycle's table does not allow does not happen.
"""


def http() -> str:
    """Every operation with its route and scope."""
    rows = [
        (f"`{each.method} {each.path}`", f"`{each.name}`", each.scope.value, each.summary)
        for each in sorted(OPERATIONS.values(), key=lambda each: (each.path, each.method))
    ]
    return "\n".join([HTTP, table(("route", "operation", "scope", "what it does"), rows)])


HTTP = """\
# HTTP

Every route needs `Authorization: Bearer TOKEN` but `GET /health` and `GET /ready`, the dashboard's
files, and `POST /api/login`, which takes the code of a one-time link. Bodies and answers are JSON;
an error is a problem document (RFC 9457) whose `code` is in [errors](errors.md). The full
description is served at `/openapi.json`. The same operations can be called from Python by their
names.
"""


def commands() -> str:
    """Every command with its help."""
    endings = [(f"`{code}`", meaning) for code, meaning in EXIT_CODES.items()]
    sections = [COMMANDS_INTRODUCTION, table(("exit code", "meaning"), endings)]
    context = click.Context(cli, info_name="detent")
    for each in COMMANDS:
        command = cli.get_command(context, each)
        if command is not None:
            sections.append(_command(command, context, f"detent {each}"))
    return "\n".join(sections)


def _command(command: click.Command, parent: click.Context, title: str) -> str:
    context = click.Context(command, info_name=title.rpartition(" ")[2], parent=parent)
    context.terminal_width = context.max_content_width = 96
    text = f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        inner = (command.get_command(context, each) for each in command.list_commands(context))
        text += "\n" + "\n".join(
            _command(each, context, f"{title} {each.name}").replace("## ", "### ", 1)
            for each in inner
            if each is not None
        )
    return text


COMMANDS_INTRODUCTION = """\
# Commands

While `detent up` runs on a data directory, commands go through it; otherwise they work on the data
themselves. Errors go to stderr with a code from [errors](errors.md) and its exit code.

Every command but `mcp` has `--json`, whose output is ASCII and does not change its form with the
terminal. Tables fit the terminal, or the columns that `COLUMNS` names; a pipe gets whole columns.
Colour is used on a terminal only, and not where `NO_COLOR` is set. Verbs take the ids of tasks, or
a filter for many (`detent cancel --state queued --intent runQA`): they say how many they
found and ask, unless `--yes` is given; without a terminal and without `--yes` nothing is done.
"""

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/commands.md": commands,
    "docs/reference/http.md": http,
    "docs/reference/settings.md": settings,
    "docs/reference/events.md": events,
    "docs/reference/couplings.md": couplings,
}
