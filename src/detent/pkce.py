"""The challenge of PKCE (RFC 7636), by the method S256."""

import base64
import hashlib


def challenge_of(verifier: str) -> str:
    """The challenge of a verifier: a code with this challenge needs the verifier."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
