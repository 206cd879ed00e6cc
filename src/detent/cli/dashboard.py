"""`detent dashboard`: a link that signs a browser in, once."""

import os
import sys
import webbrowser

import click

from detent.cli import output
from detent.cli.connection import Connection, connect, live_server
from detent.errors import Refused
from detent.settings import load


def link_to(url: str, connection: Connection) -> str:
    """The page with a fresh code in the fragment, which browsers keep to themselves."""
    code: str = connection.call("create_login_code")["code"]
    return f"{url}/#code={code}"


@click.command()
@click.option("--open/--no-open", "opens", default=True, help="Open it in the browser as well.")
@output.json_option
def dashboard(opens: bool, as_json: bool) -> None:
    """Open the dashboard by a link that signs in once, within a minute."""
    loaded = load()
    url = live_server(loaded.settings.data_dir)
    if url is None:
        raise Refused(
            "No gateway serves this data directory.", hint="Start one: `detent up`. Then ask again."
        )
    with connect(loaded) as connection:
        link = link_to(url, connection)
    if as_json:
        output.print_json({"url": link})
        return
    output.print_text(f"{link}\nIt works once, within a minute.")
    if opens:
        open_page(link)


def open_page(link: str) -> None:
    """In a browser with windows, if somebody looks: one for terminals would cover what is said."""
    windows = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if windows and sys.stdout.isatty():
        webbrowser.open(link)
