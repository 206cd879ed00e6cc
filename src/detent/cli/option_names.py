"""Errors of operations in the words of the command line: `--budget`, not `max_budget_usd`.

Parameters of commands have the names of the fields that they fill, so a command itself says which
of its options a field is.
"""

import re
from collections.abc import Mapping

import click

from detent.errors import DetentError

#: The key in the meta data of a context under which the innermost command is found.
COMMAND = "detent.command"
#: Names that are not words of plain English.
_FIELD = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")


def name_options(error: DetentError, ctx: click.Context) -> None:
    """Change the texts of an error so that they name the options of the command that failed."""
    command = ctx.meta.get(COMMAND)
    if isinstance(command, click.Command):
        replace_fields(error, _names(command))


def replace_fields(error: DetentError, names: Mapping[str, str]) -> None:
    """Replace names of fields in the texts of an error. Its details keep them, for programs."""
    field = str(error.details.get("field", ""))
    # Without the object of a submission, and an option is given once for each entry of a list.
    name = field.removeprefix("options.").partition("[")[0]
    if name in names and error.message.startswith(f"{field} "):
        error.message = names[name] + error.message.removeprefix(field)
    error.message, error.hint = (
        _FIELD.sub(lambda found: names.get(found[0], found[0]), text)
        for text in (error.message, error.hint)
    )


def _names(command: click.Command) -> dict[str, str]:
    """By field, the option or the argument that fills it."""
    found: dict[str, str] = {}
    for each in command.params:
        if isinstance(each, click.Option) and not each.hidden:
            found.setdefault(str(each.name), max(each.opts, key=len))
        elif isinstance(each, click.Argument) and "_" in str(each.name):
            found[str(each.name)] = each.human_readable_name
    return found
