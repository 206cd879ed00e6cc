"""`detent login` and `detent logout`: sign in to a gateway, whose token becomes a context."""

import re
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import click

from detent.cli import contexts_file, output
from detent.cli.contexts import (
    ask_token,
    caller_text,
    show_caller,
    store_context,
    warn_of_plain_http,
    without,
)
from detent.cli.contexts_file import Context
from detent.cli.dashboard import open_browser
from detent.cli.target import Target, check_url, given_token
from detent.cli.target_options import given_options
from detent.errors import DetentError, Refused


@click.command()
@click.argument("url")
@click.option("--name", help="The name of the context; the host of the URL if omitted.")
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="A file of PEM certificates, with which the certificate of the gateway is checked.",
)
@click.option("--project", help="The project to work in, if your roles are in several.")
@click.option("--with-token", is_flag=True, help="Use a token, even if there is a provider.")
@output.json_option
def login(
    url: str,
    name: str | None,
    ca_file: str | None,
    project: str | None,
    with_token: bool,
    as_json: bool,
) -> None:
    """Sign in to the gateway at URL, and use it from now on.

    If the gateway has a provider for signing in, it is opened in the browser. Otherwise, or with
    --with-token, you are asked for a token, which `detent tokens create` creates on the gateway's
    machine. The token is stored as a context, in a file that only you can read. `detent context use
    local` makes commands use this machine again.
    """
    options = given_options()
    if options.url or options.context or options.local:
        raise click.UsageError("Give the address as URL, without --url, --context or --local.")
    url = check_url(url, "URL")
    chosen = contexts_file.check_name(name or default_name(url))
    made = Context(url, _token(url, ca_file, with_token), ca_file)
    caller = show_caller(made, "URL") if project is None else _in_project(made, project)
    store_context(chosen, made, use=True)
    facts = {"name": chosen, "url": url, "current": True, "caller": caller}
    sentence = f"Signed in to {caller_text(url, caller)}. Context: {chosen}"
    output.print_result(facts, sentence, as_json)
    warn_of_plain_http(url)


def _token(url: str, ca_file: str | None, with_token: bool) -> str:
    """The token that is given; else that of a person who signs in; else one that is typed."""
    given = given_token(url)
    if given is not None:
        return given
    from detent.cli import browser_login

    if with_token or browser_login.offered_by(url, ca_file) is None:
        return ask_token(url)
    return browser_login.sign_in(url, ca_file, _show).token


def _in_project(made: Context, project: str) -> dict[str, Any]:
    """Continue the new login in another project."""
    from detent.cli.remote_gateway import RemoteGateway

    with closing(RemoteGateway(Target(made.url, made.token, "URL", ca_file=made.ca_file))) as to:
        found: dict[str, Any] = to.call("switch_project", project=project)
        return found


def _show(link: str) -> None:
    output.print_note(f"Sign in in the browser:\n{link}")
    open_browser(link)


@click.command()
@click.argument("name", required=False)
@output.json_option
def logout(name: str | None, as_json: bool) -> None:
    """Sign out of the gateway of a context, and remove the context.

    Without NAME it is the current context. A login through a provider ends. A token stays valid;
    `detent tokens revoke` revokes it.
    """
    contexts = contexts_file.read()
    chosen = name or contexts.current
    if chosen is None:
        raise Refused(
            "Commands use this machine: there is nothing to sign out of.",
            hint="`detent context list` lists the contexts.",
        )
    one = contexts.find(chosen)
    ended = _end(one)
    contexts_file.change(lambda now: without(now, chosen))
    facts = {"name": chosen, "url": one.url, "ended": ended}
    output.print_result(facts, f"Signed out of {one.url}.", as_json)


def _end(one: Context) -> bool:
    """End the login at the gateway; False if it is not reachable, or the login has ended before."""
    from detent.cli.remote_gateway import RemoteGateway

    with closing(RemoteGateway(Target(one.url, one.token, "context", ca_file=one.ca_file))) as to:
        try:
            to.get_bytes("POST", "/api/logout")
        except DetentError as error:
            output.print_note(f"The gateway was not notified: {error.message}")
            return False
    return True


def default_name(url: str) -> str:
    """The name of a context for a URL: its host, and its port if it has one."""
    parts = urlsplit(url)
    host = re.sub(r"[^A-Za-z0-9._-]+", "-", parts.hostname or "").strip("-._") or "gateway"
    return host[:50] if parts.port is None else f"{host[:50]}-{parts.port}"
