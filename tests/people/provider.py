"""A real OpenID Connect provider on loopback, and a person who signs in at it over HTTP."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

import httpx2

from detent.service import mcp_tools
from tests.gateway.installation import DEADLINE_S, Installation, installed
from tests.ports import free_port
from tools import oidc_provider, web

SECRET = "a-secret-of-the-tests"
#: The accounts: an administrator, a reviewer of one project who also sees another, and a stranger.
ACCOUNTS: Mapping[str, Mapping[str, Any]] = {
    "ada": {"email": "ada@example.com", "groups": ["admins"]},
    "rita": {"email": "rita@example.com", "groups": ["payments", "guests"]},
    "vic": {"email": "vic@example.com", "groups": ["guests"]},
    "otto": {"email": "otto@example.com", "groups": ["others"]},
    "eve": {"email": "eve@example.com", "groups": ["admins"], "email_verified": False},
    "mel": {"email": "mel@example.com", "groups": ["admins"], "email_verified": "false"},
    "owner": {"email": "owner", "groups": ["admins"]},
}
ROLES = ("admins=admin", "payments=reviewer:payments", "guests=viewer:shop", "user:pam=viewer")
_FORM = re.compile(r'<form[^>]*action="([^"]+)"', re.S)
_PROMPT = re.compile(r'name="prompt" value="(\w+)"')


class People(NamedTuple):
    """A gateway whose people sign in at a provider."""

    gateway: Installation
    issuer: str


@contextmanager
def provider(redirect_uri: str, port: int) -> Iterator[str]:
    """A provider that runs until the end of the context; its issuer."""
    packages = oidc_provider.install()
    script = Path(__file__).with_name("provider.mjs")
    process = subprocess.Popen(
        [
            str(web.node()),
            str(script),
            str(packages),
            str(port),
            redirect_uri,
            json.dumps(ACCOUNTS),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "ready":
                break
        else:
            raise AssertionError("the provider did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        if process.stdout is not None:
            process.stdout.close()


def oidc_settings(issuer: str) -> dict[str, Any]:
    return {
        "oidc_issuer": issuer,
        "oidc_client_id": "detent",
        "oidc_client_secret": "env:DETENT_TEST_OIDC_SECRET",
        "oidc_roles": ROLES,
        "oidc_label": "Example",
    }


@contextmanager
def people(directory: Path) -> Iterator[People]:
    """A gateway with a provider; DETENT_TEST_OIDC_SECRET must be set."""
    port, provider_port = free_port(), free_port()
    redirect_uri = f"http://127.0.0.1:{port}/api/login/oidc/callback"
    with (
        provider(redirect_uri, provider_port) as issuer,
        installed(directory, mcp_tools, port=port, **oidc_settings(issuer)) as gateway,
    ):
        yield People(gateway, issuer)


def sign_in(
    gateway: Installation, login: str, begin: str = "/api/login/oidc"
) -> tuple[httpx2.Client, str]:
    """A browser in which a person signs in at the provider, and the address at which it ends."""
    browser = gateway.client(None)
    answer = browser.get(begin)
    for _ in range(20):
        if answer.is_redirect:
            target = urljoin(str(answer.url), answer.headers["location"])
            if "#" in target or target.endswith("/") or "/?code=" in target:
                return browser, target
            answer = browser.get(target)
            continue
        form = _FORM.search(answer.text)
        assert form is not None, answer.text
        prompt = _PROMPT.search(answer.text)
        assert prompt is not None, answer.text
        fields = {"prompt": prompt[1], "login": login, "password": "x"}
        answer = browser.post(urljoin(str(answer.url), unescape(form[1])), data=fields)
    raise AssertionError("signing in does not end")
