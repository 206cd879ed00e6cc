"""`detent dashboard`: open the dashboard with a one-time login link."""

import os
import sys
import webbrowser

import click

from detent.cli import output
from detent.cli.connection import Connection, connect, live_server
from detent.cli.target import current_target
from detent.errors import Refused
from detent.settings_loader import load


def login_link(url: str, connection: Connection) -> str:
    """A dashboard URL with a new login code in its fragment, which browsers do not send."""
    code: str = connection.call("create_login_code")["code"]
    return f"{url}/#code={code}"


@click.command()
@click.option(
    "--open/--no-open",
    "open_it",
    default=True,
    help="Open the link in a browser, or only print it.",
)
@output.json_option
def dashboard(open_it: bool, as_json: bool) -> None:
    """Open the dashboard with a login link that works once, within a minute."""
    url = _gateway_url()
    with connect() as connection:
        link = login_link(url, connection)
    if as_json:
        output.print_json({"url": link})
        return
    output.print_text(f"{link}\nThe link works once, within a minute.")
    if open_it:
        open_browser(link)


def _gateway_url() -> str:
    """The URL of the gateway that is set, else of the one that runs on this machine."""
    target = current_target()
    if target is not None:
        return target.url
    data_dir = load().settings.data_dir
    url = live_server(data_dir)
    if url is None:
        raise Refused(
            f"No gateway serves the data directory {data_dir}.",
            hint="Start one with `detent up`, then repeat the command.",
        )
    return url


def open_browser(link: str) -> None:
    """Open a link in a graphical browser, if there is one and stdout is a terminal."""
    windows = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if windows and sys.stdout.isatty():
        webbrowser.open(link)
