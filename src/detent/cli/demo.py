"""`detent demo`: a story to watch, on an installation of its own that is gone afterwards."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from detent.cli import output
from detent.cli.dashboard import open_page


@click.command()
@click.option("--terminal", is_flag=True, help="Do without the browser.")
@click.option("--manual", is_flag=True, help="You answer, raise the budget, and accept.")
@click.option("--quick", is_flag=True, help="Make no pauses for reading.")
@click.option("--keep", is_flag=True, help="Keep the directory with all that was made.")
@output.json_option
def demo(terminal: bool, manual: bool, quick: bool, keep: bool, as_json: bool) -> None:
    """Watch a question, a budget, a failing resource, a killed worker and a review.

    Starts a detent of its own in a temporary directory, with a stand-in for the agent: nothing of
    yours is touched and nothing is spent. At the end it checks its claims against its own log, and
    ends with 1 if one of them is not so.
    """
    from detent.demo.processes import Stage
    from detent.demo.story import Manner, Story

    say = output.print_note if as_json else output.print_text
    before = signal.signal(signal.SIGTERM, _leave)
    manner = Manner(say, None if terminal else open_page, quick, manual)
    directory = Path(tempfile.mkdtemp(prefix="detent-demo-"))
    try:
        with Stage(directory) as stage:
            found = Story(stage, manner).tell()
    except KeyboardInterrupt:
        say("\nStopped. What it started has ended" + ("." if keep else ", and nothing is left."))
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if keep:
            say(f"\nKept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        output.print_json({"claims": found, "directory": str(directory) if keep else None})
    elif all(found.values()):
        say("\nThat was detent. Your own: `detent init`, then `detent up`.")
    sys.exit(0 if all(found.values()) else 1)


def _leave(number: int, _: Any) -> None:
    """As an exception, so that the children are ended on the way out."""
    sys.exit(128 + number)
