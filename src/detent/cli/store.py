"""Commands about the data itself: `verify`."""

import sys

import click

from detent.cli import output
from detent.settings import load


@click.command()
@output.json_option
def verify(as_json: bool) -> None:
    """Fold the log and compare every row with it."""
    from detent import audit
    from detent.service import open_core

    with open_core(load()) as core, core.store.read() as view:
        found = audit.differences(view)
        events = view.head()
    if as_json:
        output.print_json({"position": events, "differences": [each._asdict() for each in found]})
    elif found:
        rows = [
            (each.stream, str(each.position), each.what, each.field, str(each.log), str(each.row))
            for each in found
        ]
        output.table(("STREAM", "POSITION", "WHAT", "FIELD", "LOG SAYS", "ROW SAYS"), rows)
    else:
        output.say(f"Clean: the log up to position {events} and every row agree.")
    sys.exit(1 if found else 0)
