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
    "init": Command("detent.cli.up:init", "Write a starter detent.toml, to be edited."),
    "up": Command("detent.cli.up:up", "Run gateway, worker and keeper in one process."),
    "serve": Command("detent.cli.up:serve", "Run a gateway alone."),
    "worker": Command(
        "detent.cli.up:worker", "Run a worker alone; any number may run, on any machine."
    ),
    "keeper": Command("detent.cli.up:keeper", "Run a keeper alone; any number may stand by."),
    "submit": Command("detent.cli.submit:submit", "Submit a task of an intent and queue it."),
    "tasks": Command("detent.cli.tasks:tasks", "List tasks, newest first."),
    "show": Command(
        "detent.cli.tasks:show", "Show one task: where it stands, its runs, and its history."
    ),
    "why": Command(
        "detent.cli.tasks:why", "Say why a task is not moving, and who can change that."
    ),
    "inbox": Command("detent.cli.tasks:inbox", "Deal with what waits for a person, one by one."),
    "run": Command("detent.cli.tasks:run", "Queue tasks, or run failed ones again."),
    "cancel": Command("detent.cli.tasks:cancel", "Cancel tasks and their subtasks."),
    "accept": Command("detent.cli.tasks:accept", "Accept work that waits for review."),
    "reject": Command("detent.cli.tasks:reject", "Reject work that waits for review."),
    "answer": Command("detent.cli.tasks:answer", "Answer a task's open question."),
    "resume": Command("detent.cli.tasks:resume", "Go on with timed-out tasks in their sessions."),
    "retry": Command("detent.cli.tasks:retry", "Run tasks again with new counts."),
    "signal": Command("detent.cli.tasks:signal", "Send a named signal to a task's job."),
    "delete": Command("detent.cli.tasks:delete", "Delete tasks with their data."),
    "events": Command(
        "detent.cli.feed:events", "Print the log, or one task's history, as it happened."
    ),
    "logs": Command("detent.cli.feed:logs", "Print what a task's last run has written."),
    "verify": Command(
        "detent.cli.store:verify",
        "Check the chain of seals, fold the log and compare every row with it.",
    ),
    "rebuild": Command(
        "detent.cli.store:rebuild", "Write all rows anew from the log, then verify them."
    ),
    "db": Command(
        "detent.cli.db:db", "Look after the database: schema, backup, restore, move, trim."
    ),
    "doctor": Command("detent.cli.doctor:doctor", "Look for what is wrong with this installation."),
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
