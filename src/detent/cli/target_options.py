"""The options `--url`, `--token`, `--context` and `--local`, which every command accepts.

`detent --help` shows them; commands accept them too, so that they may follow the command.
"""

from typing import Any, NamedTuple

import click

from detent.cli.option_names import COMMAND

META = "detent.target_options"


class TargetOptions(NamedTuple):
    """The options `--url`, `--token`, `--context` and `--local` of a command line."""

    url: str | None = None
    token: str | None = None
    context: str | None = None
    local: bool = False


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    ctx.meta[COMMAND] = ctx.command  # the innermost command is parsed last
    if value not in (None, False):
        ctx.meta.setdefault(META, {})[str(parameter.name).removeprefix("target_")] = value


def options(*, hidden: bool) -> list[click.Option]:
    """The options that name the gateway. They are shown by `detent --help` alone."""
    shared: dict[str, Any] = {
        "expose_value": False,
        "callback": _remember,
        "hidden": hidden,
        "is_eager": True,
    }
    return [
        click.Option(
            ["--url", "target_url"],
            help="Use the gateway at this address.",
            metavar="URL",
            **shared,
        ),
        click.Option(
            ["--token", "target_token"], help="The token for --url.", metavar="TOKEN", **shared
        ),
        click.Option(
            ["--context", "target_context"],
            help="Use the gateway of this context; see detent context.",
            metavar="NAME",
            **shared,
        ),
        click.Option(
            ["--local", "target_local"],
            help="Use the installation of this machine, whatever else is set.",
            is_flag=True,
            **shared,
        ),
    ]


def add_options(command: click.Command) -> None:
    """Let a command and its subcommands accept the options too, so that they may follow it."""
    if not any(each.name == "target_url" for each in command.params):
        command.params.extend(options(hidden=True))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            add_options(each)


def given_options() -> TargetOptions:
    """The options of the command that runs."""
    ctx = click.get_current_context(silent=True)
    return TargetOptions(**ctx.meta.get(META, {})) if ctx is not None else TargetOptions()
