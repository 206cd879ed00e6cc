"""The root of the command line: the table of commands, and where an error becomes a message.

To add a command, add a line to COMMANDS. Its module is imported only when the command is used, so
`detent --help` stays fast however much there is; that is why the short help stands in the table.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from typing import NamedTuple

import click

from detent.cli import output
from detent.errors import DetentError


class Command(NamedTuple):
    """Where a command is defined, as module:attribute, and its line in `detent --help`."""

    place: str
    help: str


COMMANDS: Mapping[str, Command] = {
    "lifecycle": Command(
        "detent.cli.lifecycle:lifecycle", "Show, draw, export, check and simulate the lifecycles."
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = COMMANDS[cmd_name].place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].help) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except DetentError as error:
            output.complain(error)
            ctx.exit(error.exit_code)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="detent")
def cli() -> None:
    """Durable tasks, jobs and runs whose every change of state is an event in one log."""


def main() -> None:
    """The entry point of the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that lacks a letter is no reason to fail
    cli(prog_name="detent")
