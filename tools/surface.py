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

A command-line option overrides the environment variable, which overrides `detent.toml`, which
overrides the default. In the file, the part of a name before the dot is the section:
`gateway.port` is `port` in `[gateway]`. detent searches the working directory and the directories
above it for the file.

`DETENT_URL`, `DETENT_TOKEN` and `DETENT_CONTEXT` are no settings: they name
[the gateway that commands use](../howto/remote.md).
"""


def events() -> str:
    """Every event of the log with its fields."""
    sections = [EVENTS_INTRODUCTION]
    for level in ("task", "job", "run", "step", "wait", "signal", "checkpoint", "limit"):
        rows = [_event(each) for each in EVENTS.values() if each.level == level]
        sections += [f"## Of a {level}\n", table(("event", "fields", "meaning"), rows)]
    return "\n".join(sections)


def _event(each: type[Event]) -> tuple[str, str, str]:
    names = [field.name for field in dataclasses.fields(each)]  # type: ignore[arg-type]
    fields = ", ".join(f"`{name}`" for name in names if name != "name")
    doc = each.__doc__ or ""
    meaning = "" if doc.startswith(each.__name__ + "(") else " ".join(doc.split())
    return _name_of(each), fields, meaning


def _name_of(each: type[Event]) -> str:
    """The name of an event. Events that a document declares share a class; instances have names."""
    return f"`{each.name}`" if isinstance(each.name, str) else "(any declared event)"


EVENTS_INTRODUCTION = """\
# Events

The log contains these events, and rows change only through them. Each event belongs to the stream
of a task or of a job and has a position, a version, a time and an actor. Runs, steps, waits,
signals and checkpoints belong to the stream of their job. Pauses and limits belong to the stream
of the installation, `@system`. The events that change a state are those of the
[lifecycles](lifecycles.md).
"""


def couplings() -> str:
    """The effects of events on parents and children, row by row."""
    sections = [COUPLINGS]
    for title, rows in (
        ("Up: from a child to its parent", UP),
        ("Down: from a parent to its child", DOWN),
    ):
        sections += [f"## {title}\n", table(("when", "and", "then"), map(_coupling, rows))]
    return "\n".join(sections)


def _coupling(row: Coupling) -> tuple[str, str, str]:
    return _name_of(row.when), _words(row.given), _words(row.then)


def _words(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", " ")


COUPLINGS = """\
# Couplings

An event of a task, a job or a run can have effects on its parent or its children. This page lists
them. detent evaluates the conditions of all rows of an event, in this order, before it applies any
of them, and applies them in the transaction of the command. An effect that the table of the
lifecycle does not allow is skipped.
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

Every route needs `Authorization: Bearer TOKEN`, except `GET /health`, `GET /ready`, the files of
the dashboard, and the routes below `/api/login` with which
[people](../howto/users-and-roles.md) sign in; `POST /api/login` accepts the code of a one-time
link. Requests and responses are JSON. An error is a problem document (RFC 9457) whose `code` is
listed in [errors](errors.md). The gateway serves the full description at `/openapi.json`. Python
programs can call the same operations by name.
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

While `detent up` runs on a data directory, commands send their requests to it; otherwise they open
the database themselves. Errors are printed to stderr with a code from [errors](errors.md).

Every command except `mcp` has `--json`. Its output is ASCII and does not depend on the terminal.
Tables are fitted to the width of the terminal or to the variable `COLUMNS`; in a pipe, columns are
not shortened. Colour is used only on a terminal, and not if `NO_COLOR` is set.

Commands that act on tasks take ids, or options that select many tasks (`detent cancel --state
queued --intent runQA`). With options, they print the number of selected tasks and ask for
confirmation, unless `--yes` is given. Without a terminal and without `--yes`, they change nothing.
"""

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/commands.md": commands,
    "docs/reference/http.md": http,
    "docs/reference/settings.md": settings,
    "docs/reference/events.md": events,
    "docs/reference/couplings.md": couplings,
}
