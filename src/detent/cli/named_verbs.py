"""Verbs on one thing that is known by its name: a resource, a schedule, a worker."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect

#: Says to people what became of the thing of this name.
Tell = Callable[[str, Mapping[str, Any]], None]


def add_verb(group: click.Group, verb: str, operation: str, help_text: str, tell: Tell) -> None:
    """A command of the group that asks for one operation on the named thing."""

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
            tell(name, done)
