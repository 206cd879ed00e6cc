"""The root of the command line: the table of commands, and where an error becomes a message.

To add a command, add a line to COMMANDS. Its module is imported only when the command is used, so
`detent --help` stays fast however much there is; that is why the short help stands in the table.
"""

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EPIPE
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.exceptions import NoSuchCommand

from detent.cli import output
from detent.errors import DetentError, Misconfigured, Refused

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


RUNNING, ACTING, LOOKING = "Run detent", "Work", "Look"
INSTALLATION, DATA, FURTHER = "Installation", "Data", "Further"
#: Exit code of a command that was stopped by Ctrl-C, as shells have it.
INTERRUPTED = 130


class Command(NamedTuple):
    """Where a command is defined, as module:attribute, its line in `--help`, and its section."""

    place: str
    help: str
    section: str = FURTHER


COMMANDS: Mapping[str, Command] = {
    "init": Command("detent.cli.up:init", "Write a starter detent.toml, to be edited.", RUNNING),
    "up": Command("detent.cli.up:up", "Run gateway, worker and keeper in one process.", RUNNING),
    "serve": Command("detent.cli.up:serve", "Run a gateway alone.", RUNNING),
    "worker": Command(
        "detent.cli.up:worker",
        "Run a worker alone; any number may run, on any machine.",
        RUNNING,
    ),
    "keeper": Command(
        "detent.cli.up:keeper",
        "Run a keeper alone; any number may stand by.",
        RUNNING,
    ),
    "dashboard": Command(
        "detent.cli.dashboard:dashboard",
        "Open the dashboard by a link that signs in once, within a minute.",
    ),
    "submit": Command(
        "detent.cli.submit:submit",
        "Submit a task of an intent and queue it.",
        ACTING,
    ),
    "run": Command("detent.cli.task_verbs:run", "Queue tasks, or run failed ones again.", ACTING),
    "cancel": Command("detent.cli.task_verbs:cancel", "Cancel tasks and their subtasks.", ACTING),
    "retry": Command("detent.cli.task_verbs:retry", "Run tasks again with new counts.", ACTING),
    "resume": Command(
        "detent.cli.task_verbs:resume",
        "Go on with timed-out tasks in their sessions.",
        ACTING,
    ),
    "accept": Command("detent.cli.task_verbs:accept", "Accept work that waits for review.", ACTING),
    "reject": Command("detent.cli.task_verbs:reject", "Reject work that waits for review.", ACTING),
    "answer": Command(
        "detent.cli.task_verbs:answer",
        "Answer the open question of a task, or of a job alone.",
        ACTING,
    ),
    "signal": Command(
        "detent.cli.task_verbs:signal",
        "Send a named signal to a job, or to that of a task.",
        ACTING,
    ),
    "dismiss": Command(
        "detent.cli.task_verbs:dismiss",
        "Stop waiting for subtasks that failed; their parents go on.",
        ACTING,
    ),
    "delete": Command("detent.cli.task_verbs:delete", "Delete tasks with their data.", ACTING),
    "raise": Command(
        "detent.cli.costs:raise_budget",
        "Set a task's budget, in dollars; what only the old one held up goes on.",
        ACTING,
    ),
    "fork": Command(
        "detent.cli.history:fork",
        "Queue a new job that keeps what a job had done before a step, and goes on from there.",
        ACTING,
    ),
    "inbox": Command(
        "detent.cli.inbox:inbox",
        "Deal with what waits for a person, one by one.",
        ACTING,
    ),
    "pause": Command(
        "detent.cli.limits:pause",
        "Let no more work of an intent, a project or a key, or none at all, be started.",
        ACTING,
    ),
    "unpause": Command(
        "detent.cli.limits:unpause",
        "End a pause of an intent, of a project, of a key or of everything.",
        ACTING,
    ),
    "tasks": Command(
        "detent.cli.tasks:tasks",
        "List tasks, newest first; create one, or set its fields or state.",
        LOOKING,
    ),
    "jobs": Command("detent.cli.show:jobs", "List jobs, newest first.", LOOKING),
    "runs": Command(
        "detent.cli.runs:runs",
        "List runs, newest first; begin or end one by hand.",
        LOOKING,
    ),
    "steps": Command(
        "detent.cli.show:steps",
        "List the steps of a task's or a job's plans.",
        LOOKING,
    ),
    "show": Command(
        "detent.cli.show:show",
        "Show one task, job or run: where it stands, and its history.",
        LOOKING,
    ),
    "why": Command(
        "detent.cli.show:why",
        "Say why a task or job is not moving, and who can change that.",
        LOOKING,
    ),
    "costs": Command(
        "detent.cli.costs:costs",
        "Show what a task has cost, run by run and with its subtasks.",
        LOOKING,
    ),
    "at": Command(
        "detent.cli.history:at",
        "Show a task as it stood after a position of the log, or at a time.",
        LOOKING,
    ),
    "watch": Command(
        "detent.cli.watch:watch",
        "Watch the board live; a bell tells when something waits for a person.",
        LOOKING,
    ),
    "logs": Command("detent.cli.events:logs", "Print what a task's last run has written.", LOOKING),
    "evidence": Command(
        "detent.cli.evidence:evidence",
        "List and save what runs left behind; add a file by hand.",
        LOOKING,
    ),
    "events": Command(
        "detent.cli.events:events",
        "Print the log, or one task's history, as it happened.",
        LOOKING,
    ),
    "health": Command(
        "detent.cli.installation:health",
        "Say whether all is well, with the reasons.",
        LOOKING,
    ),
    "stats": Command(
        "detent.cli.installation:stats",
        "Show throughput, success rate, durations, cost and queue age.",
        LOOKING,
    ),
    "state": Command(
        "detent.cli.installation:state",
        "Read and set the values of the installation's state.",
        LOOKING,
    ),
    "resources": Command(
        "detent.cli.resources:resources",
        "List resources and who holds them; put, drain or delete one.",
        INSTALLATION,
    ),
    "workers": Command(
        "detent.cli.workers:workers",
        "List workers and what they run; drain one.",
        INSTALLATION,
    ),
    "schedules": Command(
        "detent.cli.schedules:schedules",
        "List schedules; put, pause, trigger or delete one.",
        INSTALLATION,
    ),
    "projects": Command(
        "detent.cli.projects:projects",
        "List projects with their counts; create one.",
        INSTALLATION,
    ),
    "intents": Command(
        "detent.cli.projects:intents",
        "List the known intents and where they come from.",
        INSTALLATION,
    ),
    "limits": Command(
        "detent.cli.limits:limits",
        "List what is paused, and how many may run at once; now, or at an earlier moment.",
        INSTALLATION,
    ),
    "tokens": Command(
        "detent.cli.tokens:tokens",
        "List tokens; create or revoke one.",
        INSTALLATION,
    ),
    "sessions": Command(
        "detent.cli.sessions:sessions",
        "List the browser sessions of the dashboard; end one.",
        INSTALLATION,
    ),
    "config": Command(
        "detent.cli.config:config",
        "Show each setting and where its value comes from.",
        INSTALLATION,
    ),
    "completion": Command(
        "detent.cli.completion:completion",
        "Print a completion script for bash, zsh or fish.",
        INSTALLATION,
    ),
    "notion": Command("detent.cli.notion:notion", "Show tasks, runs and system state in Notion."),
    "webhooks": Command(
        "detent.cli.webhooks:webhooks",
        "List webhooks and how sending to them goes; put, delete, test and replay them.",
    ),
    "doctor": Command(
        "detent.cli.doctor:doctor",
        "Look for what is wrong with this installation.",
        DATA,
    ),
    "verify": Command(
        "detent.cli.verify:verify",
        "Check the hash chain, fold the log and compare every row with it.",
        DATA,
    ),
    "rebuild": Command(
        "detent.cli.verify:rebuild",
        "Write all rows anew from the log, then verify them.",
        DATA,
    ),
    "export": Command(
        "detent.cli.export:export",
        "Write TASK, with its whole tree, history, evidence and output, into the archive FILE.",
        DATA,
    ),
    "import": Command(
        "detent.cli.export:import_",
        "Take in an archive of `detent export`, or a queue of JSON lines.",
        DATA,
    ),
    "gc": Command(
        "detent.cli.gc:gc",
        "Forget what has had its time: work, keys, output, blobs, and files of this machine.",
        DATA,
    ),
    "db": Command(
        "detent.cli.db:db",
        "Look after the database: schema, backup, restore, move, trim.",
        DATA,
    ),
    "lifecycle": Command(
        "detent.cli.lifecycle:lifecycle",
        "Show, draw, export, check and simulate the lifecycles.",
        DATA,
    ),
    "demo": Command(
        "detent.cli.demo:demo",
        "Watch a question, a budget, a failing resource, a killed worker and a review.",
    ),
    "mcp": Command(
        "detent.cli.mcp:mcp", "Serve operations as MCP tools on standard input and output."
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Names and helps from the table: completing imports no command."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=COMMANDS[name].help)
            for name in self.list_commands(ctx)
            if name in COMMANDS and name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name: COMMANDS[name] for name in self.list_commands(ctx) if name in COMMANDS}
        for section in dict.fromkeys(command.section for command in listed.values()):
            rows = [(name, each.help) for name, each in listed.items() if each.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command line. With --json everything that goes wrong is said in JSON, on stderr."""
        given = sys.argv[1:] if args is None else list(args)
        wanted = "--json" in takewhile(lambda each: each != "--", given)
        output.json_errors.set(wanted)
        if not wanted or not extra.get("standalone_mode", True):
            return super().main(given, **extra)
        try:
            code = super().main(given, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            output.complain_of_usage(error)
            code = error.exit_code
        except click.Abort:
            output.complain(Refused("The command was stopped before it did anything."))
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except DetentError as error:
            output.complain(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if error.errno == EPIPE:
                raise  # whoever read has gone away: click ends quietly
            explained = _of_the_machine(error)
            output.complain(explained)
            ctx.exit(explained.exit_code)


def _of_the_machine(error: OSError) -> DetentError:
    """A file or directory that cannot be used is for the operator to put right."""
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return Misconfigured(
        f"The machine says no: {what}.",
        setting="store.data_dir",
        hint="Look at the path, its owner and its rights; `detent doctor` says more.",
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="detent")
def cli() -> None:
    """Durable tasks, jobs and runs whose every change of state is an event in one log."""


def main() -> None:
    """The entry point of the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that lacks a letter is no reason to fail.
            stream.reconfigure(errors="replace")
    try:
        cli(prog_name="detent")
    except SystemExit as end:
        if "detent.service" in sys.modules and isinstance(end.code, int | None):
            _leave(end.code or 0)
        raise


def _leave(code: int) -> None:
    """End the process after its own exit functions. Python would then take hundreds of modules
    apart one by one, for half a second, although the system frees everything in no time.
    """
    atexit._run_exitfuncs()
    with suppress(OSError):  # a reader that is gone: Python ends as it always does
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
