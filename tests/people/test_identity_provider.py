"""A provider whose documents are incomplete: the error says what is missing."""

from typing import Any

import pytest

from detent.errors import Unavailable
from detent.gateway.identity_provider import Attempt, IdentityProvider
from detent.settings import Settings

ISSUER = "https://id.example"
WHOLE = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}
ATTEMPT = Attempt("state", "nonce", "verifier")


def provider(monkeypatch: pytest.MonkeyPatch, **documents: dict[str, Any]) -> IdentityProvider:
    """A provider that has these documents, by the last part of their addresses."""
    made = IdentityProvider(Settings(oidc_issuer=ISSUER, oidc_client_id="detent"))

    async def request(_: str, url: str, **__: Any) -> dict[str, Any]:
        return documents[url.rpartition("/")[2].replace("-", "_")]

    monkeypatch.setattr(made, "_request", request)
    return made


async def test_a_description_without_addresses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {name: WHOLE[name] for name in ("issuer", "token_endpoint")}
    made = provider(monkeypatch, openid_configuration=short)
    with pytest.raises(Unavailable, match="has no authorization_endpoint, jwks_uri"):
        await made.authorization_url(ATTEMPT, "https://detent.example/callback")


async def test_keys_that_are_no_list_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    token = {"id_token": "e30.e30.e30"}
    made = provider(monkeypatch, openid_configuration=WHOLE, token=token, keys={})
    with pytest.raises(Unavailable, match="its keys are not a list"):
        await made.identify("code", ATTEMPT, "https://detent.example/callback")
