"""`detent demo`: run a demo in a temporary installation that is deleted afterwards."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from detent.cli import output
from detent.cli.dashboard import open_browser
from detent.cli.up import own_command


@click.command()
@click.option("--terminal", is_flag=True, help="Do not open a browser.")
@click.option(
    "--manual", is_flag=True, help="You answer the question, raise the budget and accept the work."
)
@click.option("--quick", is_flag=True, help="Do not pause for reading.")
@click.option("--keep", is_flag=True, help="Keep the directory with the data and logs of the demo.")
@output.json_option
def demo(terminal: bool, manual: bool, quick: bool, keep: bool, as_json: bool) -> None:
    """Run a demo: a question, a budget, a failing resource, a killed worker and a review.

    The demo starts a detent installation in a temporary directory, with a simulated agent: your
    data is not touched and nothing is spent. At the end it checks its statements against the event
    log. The exit code is 1 if one of them is false.
    """
    from detent.demo.demo_script import DemoOptions, DemoScript
    from detent.demo.processes import DemoProcesses

    say = output.print_note if as_json else output.print_text
    before = signal.signal(signal.SIGTERM, _leave)
    detent = own_command()
    options = DemoOptions(say, detent, None if terminal else open_browser, quick, manual)
    directory = Path(tempfile.mkdtemp(prefix="detent-demo-"))
    try:
        with DemoProcesses(directory) as processes:
            found = DemoScript(processes, options).run()
    except KeyboardInterrupt:
        say(
            "\nStopped. All processes of the demo have ended"
            + ("." if keep else "; its data is deleted.")
        )
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        if keep:
            say(f"\nThe data of the demo is in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        output.print_json({"claims": found, "directory": str(directory) if keep else None})
    elif all(found.values()):
        say(f"\nNext: `{detent} init` writes a configuration file, `{detent} up` starts detent.")
    sys.exit(0 if all(found.values()) else 1)


def _leave(number: int, _: Any) -> None:
    """Exit by an exception, so that the child processes are ended."""
    sys.exit(128 + number)
