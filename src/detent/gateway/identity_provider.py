"""A client of an OpenID Connect provider: discovery, the authorization URL, and the ID token.

The authorization code flow with PKCE (RFC 7636), state and nonce. `joserfc` checks the signature
and the claims of the ID token; the extra `oidc` installs it. Connects to the provider that the
settings name, and to nothing else; redirects are not followed.
"""

import ipaddress
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from detent import redaction
from detent.errors import DetentError, Forbidden, Misconfigured, Unavailable
from detent.operations.roles import grants_from
from detent.operations.users import Identity
from detent.pkce import challenge_of
from detent.settings import Settings

TIMEOUT_S = 10.0
#: How long the provider's description and keys are used before they are read again.
FRESH_S = 3_600.0
#: The shortest time between two reads because of an unknown key.
KEYS_AGAIN_S = 30.0
#: Accepted differences between the clocks of the provider and of this machine.
LEEWAY_S = 60
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
MAX_GROUPS, MAX_GROUP_LENGTH = 1_000, 200
#: What a provider's description must have.
REQUIRED = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Attempt(NamedTuple):
    """What one attempt to sign in has drawn; the browser keeps it in a cookie until it returns."""

    state: str
    nonce: str
    verifier: str


def check_settings(settings: Settings) -> None:
    """Refuse settings with which no person could sign in, when the gateway starts."""
    grants_from(settings.oidc_roles)
    for name in ("oidc_issuer", "oidc_url"):
        url = getattr(settings, name)
        if url and not _is_secure(url):
            raise Misconfigured(
                f"{name.replace('_', '.', 1)} must begin with https://, or with http:// on "
                f"loopback, not {url!r}.",
                setting=name.replace("_", ".", 1),
            )
    if not settings.oidc_client_id:
        raise Misconfigured("oidc.client_id is missing.", setting="oidc.client_id")
    if settings.oidc_client_secret:
        redaction.resolve(settings.oidc_client_secret, "oidc.client_secret")
    if find_spec("joserfc") is None:
        raise Misconfigured(
            "Signing in through a provider is not installed: the package joserfc is missing.",
            setting="the extra oidc",
            hint="Install it with: pip install 'detent[oidc]'",
        )


def _is_secure(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme == "https" and parts.hostname:
        return True
    if parts.scheme != "http" or not parts.hostname:
        return False
    try:
        return ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname == "localhost"


class IdentityProvider:
    """The provider of the settings. Its description and keys are read when they are needed."""

    def __init__(self, settings: Settings) -> None:
        check_settings(settings)
        self.settings = settings
        self._issuer = settings.oidc_issuer
        self._document: Mapping[str, Any] = {}
        self._keys: Any = None
        self._read_at = self._keys_at = float("-inf")

    @property
    def label(self) -> str:
        return self.settings.oidc_label or str(urlsplit(self._issuer).hostname)

    async def authorization_url(self, attempt: Attempt, redirect_uri: str) -> str:
        """The provider's page at which a person signs in."""
        document = await self._description()
        query = {
            "response_type": "code",
            "client_id": self.settings.oidc_client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self.settings.oidc_scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge_of(attempt.verifier),
            "code_challenge_method": "S256",
        }
        endpoint = str(document["authorization_endpoint"])
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def identify(self, code: str, attempt: Attempt, redirect_uri: str) -> Identity:
        """Exchange a code for an ID token and check it: the person that it is about."""
        document = await self._description()
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": self.settings.oidc_client_id,
        }
        reference = self.settings.oidc_client_secret
        if reference:
            body["client_secret"] = redaction.resolve(reference, "oidc.client_secret")
        answer = await self._request("POST", str(document["token_endpoint"]), data=body)
        claims = await self._checked(str(answer.get("id_token", "")), attempt.nonce)
        wanted = {self.settings.oidc_name_claim, self.settings.oidc_groups_claim}
        if not wanted <= claims.keys() and "access_token" in answer:
            claims = {**await self._more(document, str(answer["access_token"]), claims), **claims}
        return self._identity(claims)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        claim = self.settings.oidc_name_claim
        name = claims.get(claim)
        if not isinstance(name, str) or not name:
            raise Forbidden(
                f"The provider reported no claim {claim!r}.",
                hint="Set oidc.name_claim to a claim that it reports, or add its scope to "
                "oidc.scopes.",
            )
        # Some providers report it as a text.
        if claim == "email" and claims.get("email_verified") in (False, "false"):
            raise Forbidden(f"The provider has not verified the address {name}.")
        given = claims.get(self.settings.oidc_groups_claim) or ()
        groups = [given] if isinstance(given, str) else given
        texts = [each[:MAX_GROUP_LENGTH] for each in groups if isinstance(each, str)]
        return Identity(self._issuer, str(claims["sub"]), name, tuple(texts[:MAX_GROUPS]))

    async def _more(
        self, document: Mapping[str, Any], token: str, claims: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The claims of the endpoint `userinfo`, if they are about the same person."""
        if "userinfo_endpoint" not in document:
            return {}
        headers = {"Authorization": f"Bearer {token}"}
        found = await self._request("GET", str(document["userinfo_endpoint"]), headers=headers)
        return found if found.get("sub") == claims["sub"] else {}

    # -- the ID token ----------------------------------------------------------------------

    async def _checked(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of an ID token that is signed, for this client, in time, of this attempt."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self.settings.oidc_client_id},
            sub={"essential": True},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = await self._verified(token)
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            raise Forbidden(f"The ID token of the provider is not valid: {error}.") from None
        party = claims.get("azp", self.settings.oidc_client_id)
        if party != self.settings.oidc_client_id:
            raise Forbidden("The ID token of the provider was issued to another client.")
        return claims

    async def _verified(self, token: str) -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            return jwt.decode(token, await self._key_set(), algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError):
            if time.monotonic() - self._keys_at < KEYS_AGAIN_S:
                raise
            self._keys = None  # the provider may have changed its keys
            return jwt.decode(token, await self._key_set(), algorithms=list(ALGORITHMS)).claims

    async def _key_set(self) -> Any:
        from joserfc.jwk import KeySet

        if self._keys is None or time.monotonic() - self._keys_at > FRESH_S:
            document = await self._description()
            found = await self._request("GET", str(document["jwks_uri"]))
            if not isinstance(found.get("keys"), list):
                raise _unavailable("its keys are not a list")
            self._keys, self._keys_at = (
                KeySet.import_key_set({"keys": found["keys"]}),
                time.monotonic(),
            )
        return self._keys

    # -- requests --------------------------------------------------------------------------

    async def _description(self) -> Mapping[str, Any]:
        """The provider's own description, from its well-known address."""
        if time.monotonic() - self._read_at > FRESH_S:
            address = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = await self._request("GET", address)
            if found.get("issuer") != self._issuer:
                raise Misconfigured(
                    f"The provider calls itself {found.get('issuer')!r}, not {self._issuer!r}.",
                    setting="oidc.issuer",
                    hint="Set oidc.issuer to the issuer exactly as the provider reports it.",
                )
            missing = [name for name in REQUIRED if name not in found]
            if missing:
                raise _unavailable(f"its description has no {', '.join(missing)}")
            self._document, self._read_at = found, time.monotonic()
        return self._document

    async def _request(self, method: str, url: str, **rest: Any) -> Mapping[str, Any]:
        import httpx2  # imported late: a gateway without a provider starts faster

        if not _is_secure(url):
            raise _unavailable(f"its address {url!r} is not encrypted")
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False) as client:
                response = await client.request(method, url, **rest)
            found = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise _unavailable(str(error) or type(error).__name__) from None
        if not response.is_success or not isinstance(found, dict):
            code = found.get("error") if isinstance(found, dict) else None
            raise _refusal(response.status_code, code)
        return found


def _refusal(status: int, code: object) -> DetentError:
    if code == "invalid_grant":
        return Forbidden("The provider refused the code: it is unknown, used or expired.")
    return _unavailable(f"HTTP status {status}, {code or 'no error code'}")


def _unavailable(why: str) -> Unavailable:
    return Unavailable(f"The provider does not answer as expected: {why}.", retry_after_s=5)
