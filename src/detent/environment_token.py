"""The token in DETENT_TOKEN. It belongs to the address in DETENT_URL and is sent to no other."""

from collections.abc import Mapping

URL_VARIABLE, TOKEN_VARIABLE = "DETENT_URL", "DETENT_TOKEN"
#: The address to which DETENT_TOKEN belongs if DETENT_URL is not set.
DEFAULT_URL = "http://127.0.0.1:5680"


def url_from(environment: Mapping[str, str]) -> str:
    """The address that the environment names."""
    return bare(environment.get(URL_VARIABLE, "")) or DEFAULT_URL


def token_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The token of the environment, if it belongs to this address."""
    if bare(url) != url_from(environment):
        return None
    return environment.get(TOKEN_VARIABLE, "").strip() or None


def bare(url: str) -> str:
    """An address without blanks around it and without a slash at its end."""
    return url.strip().rstrip("/")
