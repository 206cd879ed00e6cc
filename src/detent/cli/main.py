"""The root command: it imports a command when it is used, and converts errors into messages."""

import atexit
import gc
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from errno import EPIPE
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import NoSuchCommand

from detent.cli import output, target_options
from detent.cli.command_table import COMMANDS as COMMANDS
from detent.cli.option_names import name_options
from detent.errors import DetentError, Invalid, Misconfigured, Refused

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


#: New objects after which a command looks for garbage in cycles: more than its imports make. They
#: leave almost none, and a search at Python's default takes a fifth of the time of a start.
OBJECTS_OF_A_START = 200_000
#: Exit code of a command that was stopped by Ctrl-C, as shells have it.
INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        target_options.add_options(command)
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
            name_options(error, ctx)
            output.print_error(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except UnicodeEncodeError as error:
            if not _SURROGATE.search(str(error.object)):
                raise
            explained: DetentError = _not_unicode(error)
            output.print_error(explained)
            ctx.exit(explained.exit_code)
        except OSError as error:
            if error.errno == EPIPE:
                raise  # the reader closed the pipe: click exits without a message
            explained = _from_os_error(error)
            output.print_error(explained)
            ctx.exit(explained.exit_code)


#: A byte of the command line that is not text is this in Python.
_SURROGATE = re.compile("[\udc80-\udcff]")


def _not_unicode(error: UnicodeEncodeError) -> DetentError:
    """The error for a command line with bytes that are not text."""
    return Invalid(
        f"The text {str(error.object)[:200]!r} is not valid in the encoding of the terminal.",
        field="argument",
        given=ascii(error.object)[:200],
        hint="Give it in UTF-8, with a locale of UTF-8 such as LC_ALL=C.UTF-8.",
    )


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
    """Run tasks durably. Every change of state is an event in one log.

    --url, --token, --context and --local may also follow the command.
    """


cli.params.extend(target_options.options(hidden=False))


def main() -> None:
    """The entry point of the `detent` program."""
    gc.set_threshold(OBJECTS_OF_A_START)
    _open_standard_streams()
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


def _open_standard_streams() -> None:
    """Open the streams that the caller has closed, so that no other file takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _exit_without_cleanup(code: int) -> None:
    """Run the exit functions, then end the process without Python's own cleanup, which takes half a
    second with hundreds of modules loaded.
    """
    atexit._run_exitfuncs()
    with suppress(OSError):  # the reader closed the pipe: exit as Python does
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
