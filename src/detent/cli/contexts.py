"""`detent context`: name gateways on other machines, and choose the one that commands use."""

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import click

from detent.cli import contexts_file, output
from detent.cli.contexts_file import LOCAL, Context, Contexts
from detent.cli.target import Target, check_url, given_token
from detent.cli.target_options import given_options
from detent.environment_token import TOKEN_VARIABLE
from detent.errors import Forbidden, Invalid

HIDDEN = "(hidden)"


@click.group(cls=output.Group)
def context() -> None:
    """Name gateways on other machines, and choose the one that commands use."""


@context.command()
@click.argument("name")
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="A file of PEM certificates, with which the certificate of the gateway is checked.",
)
@click.option("--use", "use_it", is_flag=True, help="Use it from now on.")
@click.option("--no-check", "unchecked", is_flag=True, help="Do not connect to the gateway.")
@output.json_option
def add(name: str, ca_file: str | None, use_it: bool, unchecked: bool, as_json: bool) -> None:
    """Add the context NAME for the gateway at --url, or replace it.

    The token is that of --token or DETENT_TOKEN, else the first line of standard input; on a
    terminal you are asked for it. The gateway is asked who the token belongs to.
    """
    contexts_file.check_name(name)
    url = given_options().url
    if url is None:
        raise click.UsageError("Give the address of the gateway: --url URL.")
    made = Context(check_url(url, "--url"), given_token(url) or ask_token(url), ca_file)
    caller = None if unchecked else show_caller(made, f"context {name}")
    store_context(name, made, use=use_it)
    following = "" if use_it else f" Use it: detent context use {name}"
    facts = {"name": name, "url": made.url, "current": use_it, "caller": caller}
    output.print_result(facts, f"{name}: {caller_text(made.url, caller)}.{following}", as_json)
    warn_of_plain_http(made.url)


@context.command()
@click.argument("name")
@output.json_option
def use(name: str, as_json: bool) -> None:
    """Use the gateway of the context NAME from now on; `local` is the installation here."""

    def changed(now: Contexts) -> Contexts:
        if name != LOCAL:
            now.find(name)
        return now._replace(current=None if name == LOCAL else name)

    found = contexts_file.change(changed)
    url = None if name == LOCAL else found.contexts[name].url
    where = url or "the installation of this machine"
    output.print_result({"name": name, "url": url}, f"Commands use {where} now.", as_json)


@context.command("list")
@output.json_option
def list_(as_json: bool) -> None:
    """List the contexts; the current one is marked."""
    found = contexts_file.read()
    rows: list[dict[str, Any]] = [
        {"name": LOCAL, "url": None, "current": found.current is None},
        *(
            {"name": name, "url": each.url, "current": found.current == name}
            for name, each in sorted(found.contexts.items())
        ),
    ]
    if as_json:
        output.print_json({"items": rows})
        return
    cells = [
        ("*" if row["current"] else "", str(row["name"]), str(row["url"] or "this machine"))
        for row in rows
    ]
    output.print_table(("", "NAME", "URL"), cells)


@context.command()
@click.argument("name")
@output.json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a context with its token; the token itself stays valid."""
    contexts_file.change(lambda now: without(now, name))
    output.print_result({"name": name, "removed": True}, f"{name}: removed", as_json)


@context.command()
@click.argument("name", required=False)
@output.json_option
def show(name: str | None, as_json: bool) -> None:
    """Show a context, or the current one; the token is hidden."""
    found = contexts_file.read()
    wanted = name or found.current or LOCAL
    shown: dict[str, Any] = {"current": wanted == (found.current or LOCAL)}
    if wanted != LOCAL:
        one = found.find(wanted)
        shown |= {"url": one.url, "token": HIDDEN, "ca_file": one.ca_file}
    shown["file"] = str(contexts_file.path())
    if as_json:
        output.print_json({"name": wanted, **shown})
    else:
        current = "yes" if shown["current"] else "no"
        output.print_fields(("context", wanted), {**shown, "current": current})


# ---- shared with `detent login` --------------------------------------------------------------


def ask_token(url: str) -> str:
    """The token that a person types, or the first line of standard input."""
    if sys.stdin.isatty():
        found: str = click.prompt(f"Token for {url}", hide_input=True, err=True)
    else:
        found = sys.stdin.readline()
    if not found.strip():
        raise Invalid(
            f"There is no token for {url}.",
            field="token",
            hint=f"Write it to standard input, give --token, or set {TOKEN_VARIABLE}. "
            "`detent tokens create` creates a token on the gateway's machine.",
        )
    return found.strip()


def show_caller(made: Context, origin: str) -> dict[str, Any] | None:
    """What the gateway says about the token; None for one that may not ask, such as a run's."""
    from detent.cli.remote_gateway import RemoteGateway

    remote = RemoteGateway(Target(made.url, made.token, origin, ca_file=made.ca_file))
    try:
        found: dict[str, Any] = remote.call("show_me")
        return found
    except Forbidden as error:
        if error.code != "forbidden":
            raise
        return None
    finally:
        remote.close()


def caller_text(url: str, caller: Mapping[str, Any] | None) -> str:
    if caller is None:
        return url
    project = f" in project {caller['project']}" if caller["project"] else ""
    scopes = ", ".join(caller["scopes"])
    return f"{url}, as {caller['name']}{project} with {scopes}"


def without(now: Contexts, name: str) -> Contexts:
    """The contexts without one of them."""
    now.find(name)
    rest = {each: kept for each, kept in now.contexts.items() if each != name}
    return Contexts(rest, None if now.current == name else now.current)


def store_context(name: str, made: Context, *, use: bool) -> None:
    """Write a context to the file."""

    def changed(now: Contexts) -> Contexts:
        return Contexts({**now.contexts, name: made}, name if use else now.current)

    contexts_file.change(changed)


def warn_of_plain_http(url: str) -> None:
    """Say that a token is sent without encryption to another machine."""
    if not is_encrypted_or_here(url):
        output.print_note(
            f"{url} is not encrypted: others in the network can read the token. Outside a private "
            "network, put a TLS proxy in front of the gateway and use https://."
        )


def is_encrypted_or_here(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host in ("localhost", "::1") or host.startswith("127.")
