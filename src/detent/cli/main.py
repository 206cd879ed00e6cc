"""The root command: the table of commands, and the conversion of errors into messages.

To add a command, add a line to COMMANDS. Its module is imported only when the command is used, so
that `detent --help` stays fast. This is why the table repeats the first sentence of each help text.
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


RUN, WORK, INSPECT = "Run detent", "Work", "Inspect"
INSTALLATION, DATA, INTEGRATIONS = "Installation", "Data", "Integrations"
#: Exit code of a command that was stopped by Ctrl-C, as shells have it.
INTERRUPTED = 130


class Command(NamedTuple):
    """A command: where it is defined (module:attribute), its line in `--help`, and its section."""

    target: str
    help: str
    section: str = INTEGRATIONS


COMMANDS: Mapping[str, Command] = {
    "init": Command("detent.cli.up:init", "Write a starter detent.toml to edit.", RUN),
    "up": Command(
        "detent.cli.up:up", "Run the gateway, a worker and a keeper in one process.", RUN
    ),
    "serve": Command("detent.cli.up:serve", "Run only a gateway.", RUN),
    "worker": Command(
        "detent.cli.up:worker",
        "Run only a worker; any number can run, on any machine.",
        RUN,
    ),
    "keeper": Command(
        "detent.cli.up:keeper",
        "Run only a keeper (scheduler and maintenance); one is active, others stand by.",
        RUN,
    ),
    "dashboard": Command(
        "detent.cli.dashboard:dashboard",
        "Open the dashboard with a login link that works once, within a minute.",
        RUN,
    ),
    "submit": Command(
        "detent.cli.submit:submit",
        "Submit a task of the type INTENT and queue it.",
        WORK,
    ),
    "run": Command("detent.cli.task_verbs:run", "Queue tasks, or run failed tasks again.", WORK),
    "cancel": Command("detent.cli.task_verbs:cancel", "Cancel tasks and their subtasks.", WORK),
    "retry": Command(
        "detent.cli.task_verbs:retry", "Run tasks again and reset their retry counts.", WORK
    ),
    "resume": Command(
        "detent.cli.task_verbs:resume",
        "Continue timed-out tasks in their agent sessions.",
        WORK,
    ),
    "accept": Command("detent.cli.task_verbs:accept", "Accept work that waits for review.", WORK),
    "reject": Command("detent.cli.task_verbs:reject", "Reject work that waits for review.", WORK),
    "comments": Command(
        "detent.cli.review_comments:comments",
        "List the comments on a task's diff, with their replies, and your drafts.",
        WORK,
    ),
    "comment": Command(
        "detent.cli.review_comments:comment",
        "Comment on lines of a task's diff; without a line, on the whole file.",
        WORK,
    ),
    "reply": Command(
        "detent.cli.review_comments:reply", "Reply to a comment on a task's diff.", WORK
    ),
    "resolve": Command(
        "detent.cli.review_comments:resolve",
        "Mark a comment on a task's diff as resolved.",
        WORK,
    ),
    "request-changes": Command(
        "detent.cli.review_comments:request_changes",
        "Send work back with all open comments, and run it again in the same session.",
        WORK,
    ),
    "answer": Command(
        "detent.cli.task_verbs:answer",
        "Answer the open question of a task, or of a job without a task.",
        WORK,
    ),
    "signal": Command(
        "detent.cli.task_verbs:signal",
        "Send a named signal to a job, or to the job of a task.",
        WORK,
    ),
    "send": Command(
        "detent.cli.lifecycle_documents:send",
        "Send a task an event of its lifecycle, such as task_approved.",
        WORK,
    ),
    "dismiss": Command(
        "detent.cli.task_verbs:dismiss",
        "Stop waiting for failed subtasks, so that their parents continue.",
        WORK,
    ),
    "delete": Command("detent.cli.task_verbs:delete", "Delete tasks and their data.", WORK),
    "raise": Command(
        "detent.cli.costs:raise_budget",
        "Set a task's budget in dollars; work that waited for budget continues.",
        WORK,
    ),
    "fork": Command(
        "detent.cli.history:fork",
        "Queue a new job that keeps a job's results before STEP and continues from there.",
        WORK,
    ),
    "inbox": Command(
        "detent.cli.inbox:inbox",
        "Handle the items that wait for a person, one by one, the most urgent first.",
        WORK,
    ),
    "assign": Command(
        "detent.cli.task_verbs:assign",
        "Assign a task to a person, who finds it with detent inbox --mine.",
        WORK,
    ),
    "snooze": Command(
        "detent.cli.task_verbs:snooze",
        "Hide a task from your inbox until a time.",
        WORK,
    ),
    "pause": Command(
        "detent.cli.limits:pause",
        "Pause an intent, a project, a concurrency key or all work: no new work starts.",
        WORK,
    ),
    "unpause": Command(
        "detent.cli.limits:unpause",
        "End the pause of an intent, of a project, of a concurrency key or of all work.",
        WORK,
    ),
    "tasks": Command(
        "detent.cli.tasks:tasks",
        "List tasks, newest first; create a task, or set its fields or state.",
        INSPECT,
    ),
    "jobs": Command("detent.cli.show:jobs", "List jobs, newest first.", INSPECT),
    "runs": Command(
        "detent.cli.runs:runs",
        "List runs, newest first; begin or end a run manually.",
        INSPECT,
    ),
    "steps": Command(
        "detent.cli.show:steps",
        "List the plan steps of a task or job.",
        INSPECT,
    ),
    "show": Command(
        "detent.cli.show:show",
        "Show one task, job or run with its state and history.",
        INSPECT,
    ),
    "why": Command(
        "detent.cli.show:why",
        "Explain why a task or job is not running, and who can change that.",
        INSPECT,
    ),
    "costs": Command(
        "detent.cli.costs:costs",
        "Show the cost of a task by run and by subtask.",
        INSPECT,
    ),
    "at": Command(
        "detent.cli.history:at",
        "Show a task as it was after a position of the log, or at a time.",
        INSPECT,
    ),
    "watch": Command(
        "detent.cli.watch:watch",
        "Watch the board live; a bell rings when something waits for a person.",
        INSPECT,
    ),
    "logs": Command("detent.cli.logs:logs", "Print the output of a task's latest run.", INSPECT),
    "evidence": Command(
        "detent.cli.evidence:evidence",
        "List and save the evidence files of runs; add a file manually.",
        INSPECT,
    ),
    "diff": Command(
        "detent.cli.diff:diff",
        "Show the changes of a task that is under review, or since an earlier round.",
        INSPECT,
    ),
    "events": Command(
        "detent.cli.events:events",
        "Print the event log, or the history of one task or job.",
        INSPECT,
    ),
    "health": Command(
        "detent.cli.installation:health",
        "Report whether the installation is healthy, with the reasons.",
        INSPECT,
    ),
    "stats": Command(
        "detent.cli.installation:stats",
        "Show throughput, success rate, durations, cost and queue age.",
        INSPECT,
    ),
    "state": Command(
        "detent.cli.installation:state",
        "Read and set the values of the installation's state.",
        INSPECT,
    ),
    "resources": Command(
        "detent.cli.resources:resources",
        "List resources and the steps that hold them; put, drain or delete one.",
        INSTALLATION,
    ),
    "workers": Command(
        "detent.cli.workers:workers",
        "List workers and the jobs they run; drain one.",
        INSTALLATION,
    ),
    "schedules": Command(
        "detent.cli.schedules:schedules",
        "List schedules; put, pause, trigger or delete one.",
        INSTALLATION,
    ),
    "projects": Command(
        "detent.cli.projects:projects",
        "List projects with their task counts; create one.",
        INSTALLATION,
    ),
    "intents": Command(
        "detent.cli.projects:intents",
        "List the known intents (task types) and where they are defined.",
        INSTALLATION,
    ),
    "limits": Command(
        "detent.cli.limits:limits",
        "List pauses, concurrency limits and rate limits; now, or at an earlier time.",
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
    "notion": Command("detent.cli.notion:notion", "Copy tasks, runs and system state to Notion."),
    "webhooks": Command(
        "detent.cli.webhooks:webhooks",
        "List webhooks and their deliveries; put, delete, test or replay one.",
    ),
    "doctor": Command(
        "detent.cli.doctor:doctor",
        "Check this installation for problems and print how to fix them.",
        DATA,
    ),
    "verify": Command(
        "detent.cli.verify:verify",
        "Check the hash chain of the log, replay the log and compare every row with it.",
        DATA,
    ),
    "rebuild": Command(
        "detent.cli.verify:rebuild",
        "Rewrite all rows from the log, then verify them.",
        DATA,
    ),
    "export": Command(
        "detent.cli.export:export",
        "Write TASK with its subtasks, history, evidence and output to the archive FILE.",
        DATA,
    ),
    "import": Command(
        "detent.cli.export:import_",
        "Import an archive of `detent export`, or a queue file of JSON lines.",
        DATA,
    ),
    "gc": Command(
        "detent.cli.gc:gc",
        "Delete expired data: work, idempotency keys, output, blobs and local files.",
        DATA,
    ),
    "db": Command(
        "detent.cli.db:db",
        "Manage the database: schema, backup, restore, move, trim, clock.",
        DATA,
    ),
    "lifecycle": Command(
        "detent.cli.lifecycle:lifecycle",
        "Show, draw, check and simulate lifecycles; install, migrate and remove your own.",
        DATA,
    ),
    "demo": Command(
        "detent.cli.demo:demo",
        "Run a demo: a question, a budget, a failing resource, a killed worker and a review.",
        RUN,
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
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete names and help texts from the table, without importing any command."""
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
        """Run a command line. With --json, all errors are printed as JSON on stderr."""
        given = sys.argv[1:] if args is None else list(args)
        as_json = "--json" in takewhile(lambda each: each != "--", given)
        output.json_errors.set(as_json)
        if not as_json or not extra.get("standalone_mode", True):
            return super().main(given, **extra)
        try:
            code = super().main(given, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            output.print_usage_error(error)
            code = error.exit_code
        except click.Abort:
            output.print_error(Refused("The command was stopped before it did anything."))
            code = 1
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except DetentError as error:
            output.print_error(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if error.errno == EPIPE:
                raise  # the reader closed the pipe: click exits without a message
            explained = _from_os_error(error)
            output.print_error(explained)
            ctx.exit(explained.exit_code)


def _from_os_error(error: OSError) -> DetentError:
    """Convert an error of the operating system into a message for the operator."""
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return Misconfigured(
        f"The operating system refused: {what}.",
        setting="store.data_dir",
        hint="Check the path, its owner and its permissions. `detent doctor` checks them too.",
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="detent")
def cli() -> None:
    """Run tasks durably. Every change of state is an event in one log."""


def main() -> None:
    """The entry point of the `detent` program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A character that the terminal cannot show must not fail the command.
            stream.reconfigure(errors="replace")
    try:
        cli(prog_name="detent")
    except SystemExit as end:
        if "detent.service" in sys.modules and isinstance(end.code, int | None):
            _exit_without_cleanup(end.code or 0)
        raise


def _exit_without_cleanup(code: int) -> None:
    """Run the exit functions, then end the process without Python's own cleanup, which takes half a
    second with hundreds of modules loaded.
    """
    atexit._run_exitfuncs()
    with suppress(OSError):  # the reader closed the pipe: exit as Python does
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
