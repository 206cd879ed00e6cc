"""Commands on one object with a name: a resource, a schedule, a worker."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect

#: Prints the result of an operation on the object of this name.
Printer = Callable[[str, Mapping[str, Any]], None]


def add_verb(
    group: click.Group, verb: str, operation: str, help_text: str, print_done: Printer
) -> None:
    """Add a command to the group that calls one operation on a named object."""

    @group.command(verb, help=help_text)
    @click.argument("name")
    @output.json_option
    def command(name: str, as_json: bool) -> None:
        with connect() as detent:
            done = detent.call(operation, name=name)
        if as_json:
            output.print_json(done)
        elif "removed" in done:
            output.print_text(f"{name}: deleted")
        else:
            print_done(name, done)
