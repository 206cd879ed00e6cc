"""Which gateway a command is for: another machine's, by URL or context, or that of this machine.

An option wins over the environment, the environment over the current context. A token is only sent
to the address that it was given for. If an address is set in any of these ways, no command opens a
store of this machine without `--local`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from detent.cli import contexts_file
from detent.cli.contexts_file import LOCAL, Contexts
from detent.cli.target_options import TargetOptions, given_options
from detent.environment_token import TOKEN_VARIABLE, URL_VARIABLE, bare, token_for
from detent.errors import Invalid, Misconfigured, Refused
from detent.settings import Loaded
from detent.settings_loader import load

CONTEXT_VARIABLE = "DETENT_CONTEXT"


class Target(NamedTuple):
    """A gateway that is addressed by URL, and what has named it."""

    url: str
    token: str
    #: The option, variable or context that has named it.
    origin: str
    context: str | None = None
    ca_file: str | None = None


# ---- the target ------------------------------------------------------------------------------


def current_target() -> Target | None:
    """The gateway that the running command is for; None for the installation of this machine."""
    return resolve(given_options(), os.environ, contexts_file.read)


def resolve(given: TargetOptions, environment: Mapping[str, str], read: Any) -> Target | None:
    """The target of these options and variables; `read` returns the contexts if they are needed."""
    if sum(each not in (None, False) for each in (given.url, given.context, given.local)) > 1:
        raise Invalid(
            "Only one of --url, --context and --local may be given.",
            field="--url",
            hint="Remove all but one of them.",
        )
    if given.local or given.context == LOCAL:
        return _this_machine(given.token)
    variable = environment.get(URL_VARIABLE, "").strip()
    if given.url is not None:
        return _at(given.url, "--url", _token(given, environment, given.url), read)
    if given.context is not None:
        return _of_context(given.context, f"--context {given.context}", given.token, read())
    name = environment.get(CONTEXT_VARIABLE, "").strip()
    if variable and name:
        raise Misconfigured(
            f"{URL_VARIABLE} and {CONTEXT_VARIABLE} are both set.",
            setting=URL_VARIABLE,
            hint="Unset one of them, or give --url, --context or --local.",
        )
    if variable:
        return _at(variable, URL_VARIABLE, _token(given, environment, variable), read)
    if name == LOCAL:
        return _this_machine(given.token)
    if name:
        return _of_context(name, CONTEXT_VARIABLE, given.token, read())
    contexts: Contexts = read()
    if contexts.current is not None:
        origin = f"the current context {contexts.current}"
        return _of_context(contexts.current, origin, given.token, contexts)
    return _this_machine(given.token)


def _this_machine(token: str | None) -> Target | None:
    """No target: the installation of this machine, for which no token is given."""
    if token is not None:
        raise Invalid(
            "--token needs the address of a gateway.",
            field="--token",
            hint="Add --url or --context. Commands on this machine find its token themselves.",
        )
    return None


def given_token(url: str) -> str | None:
    """The token that the command line or the environment gives for an address."""
    return _token(given_options(), os.environ, url)


def _token(given: TargetOptions, environment: Mapping[str, str], url: str) -> str | None:
    """The token of an option; else that of the environment, unless it belongs to another URL."""
    return token_for(url, environment) if given.token is None else given.token


def _at(url: str, origin: str, token: str | None, read: Any) -> Target:
    """The target at an address, with the token and certificates of a context that has the same."""
    url = check_url(url, origin)
    if token is not None:
        return Target(url, token, origin)
    contexts: Contexts = read()
    for name, each in sorted(contexts.contexts.items()):
        if each.url == url:
            return Target(url, each.token, origin, name, each.ca_file)
    raise Misconfigured(
        f"There is no token for {url}, which {origin} names.",
        setting=TOKEN_VARIABLE,
        hint=f"Sign in with `detent login {url}`, or give --token, or set {TOKEN_VARIABLE}; "
        "`detent tokens create` creates a token.",
    )


def _of_context(name: str, origin: str, token: str | None, contexts: Contexts) -> Target | None:
    found = contexts.find(name)
    return Target(check_url(found.url, origin), token or found.token, origin, name, found.ca_file)


def check_url(url: str, origin: str) -> str:
    """The address of a gateway in its usual form; refused if it is none."""
    usual = bare(url)
    try:
        parts = urlsplit(usual)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname)
        fits = fits and parts.port != 0 and not (parts.query or parts.fragment)
        fits = fits and parts.username is None and url.isprintable() and " " not in usual
    except ValueError:
        fits = False
    if not fits:
        raise Misconfigured(
            f"{origin} must be an address such as https://detent.example.com, not {url!r}.",
            setting="url",
            hint="Give http:// or https://, the host, and the port if it is not 80 or 443.",
        )
    return usual


# ---- commands for this machine ---------------------------------------------------------------


def require_local() -> None:
    """Refuse a command that works only on this machine if another gateway is set."""
    target = current_target()
    if target is None:
        return
    ctx = click.get_current_context(silent=True)
    command = ctx.command_path if ctx is not None else "this command"
    raise Refused(
        f"`{command}` works only on the installation of this machine, but {target.origin} "
        f"names the gateway at {target.url}.",
        code="only_local",
        hint="Run it on the machine of that gateway. To use the installation of this machine, add "
        "--local.",
    )


def own_directory() -> Path:
    """Where a command keeps files of its own: the data directory of this machine's installation.

    If the gateway is elsewhere, it is the user's state directory.
    """
    if current_target() is None:
        return load().settings.data_dir
    given = os.environ.get("XDG_STATE_HOME", "").strip()
    return Path(given or Path.home() / ".local" / "state") / "detent"


def load_local(flags: Mapping[str, Any] | None = None) -> Loaded:
    """The settings, for a command that works only on this machine."""
    require_local()
    return load(flags)
