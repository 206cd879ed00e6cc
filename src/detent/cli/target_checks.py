"""Checks of `detent doctor` on what commands use: the address, its origin, version and token."""

import os
from collections.abc import Iterator
from contextlib import closing

from detent.cli.contexts import is_encrypted_or_here
from detent.cli.finding import Finding
from detent.cli.target import Target, current_target
from detent.environment_token import TOKEN_VARIABLE, URL_VARIABLE
from detent.errors import DetentError, Forbidden
from detent.settings_loader import load


def names_this_machine() -> bool:
    """Whether commands use the installation of this machine; not if it cannot be determined."""
    try:
        return current_target() is None
    except DetentError:
        return False


def check_target() -> list[Finding]:
    """What commands use, and if it is a gateway on another machine, whether they can."""
    try:
        target = current_target()
    except DetentError as error:
        return [Finding("target", False, error.message, error.hint)]
    if target is None:
        return [*_this_machine(), *_unused_token(None)]
    context = "" if target.context is None else f", context {target.context}"
    return [
        Finding("target", True, f"{target.url}{context}, from {target.origin}"),
        *_gateway(target),
        *_unused_token(target),
    ]


def _this_machine() -> Iterator[Finding]:
    try:
        where = load().settings.data_dir
    except DetentError:
        return  # the check of the configuration reports it
    yield Finding("target", True, f"this machine, {where}; no URL and no context is set")


def _gateway(target: Target) -> Iterator[Finding]:
    from detent.cli.remote_gateway import RemoteGateway

    if is_encrypted_or_here(target.url):
        how = "with TLS" if target.url.startswith("https") else "without leaving this machine"
    else:
        how = "without encryption; use https:// outside a private network"
    with closing(RemoteGateway(target)) as remote:
        try:
            me = remote.call("show_me")
        except Forbidden as error:
            if error.code != "forbidden":
                yield Finding("gateway", False, error.message, error.hint)
                return
            yield Finding("gateway", True, f"{target.url} answers, {how}")
            yield Finding("token", True, "it is valid, but it does not have the scope read")
        except DetentError as error:
            named = "token" if error.code == "unauthorized" else "gateway"
            remedy = _sign_in(target) if named == "token" else error.hint
            yield Finding(named, False, error.message, remedy)
        else:
            project = me["project"] or "all projects"
            scopes = ", ".join(me["scopes"])
            yield Finding("gateway", True, f"detent {me['version']} answers, {how}")
            yield Finding("token", True, f"{me['name']}, scopes {scopes}, {project}")


def _sign_in(target: Target) -> str:
    return f"Sign in again: detent login {target.url}"


def _unused_token(target: Target | None) -> Iterator[Finding]:
    """Report a token of the environment that is not sent, because it has no address or another."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and (target is None or target.token != token):
        what = f"{TOKEN_VARIABLE} is set, but not used: it belongs to {URL_VARIABLE}"
        yield Finding("variables", True, what)
