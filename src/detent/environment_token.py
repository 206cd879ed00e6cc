"""The token in DETENT_TOKEN. If DETENT_URL is set, the token belongs to that address alone."""

from collections.abc import Mapping

URL_VARIABLE, TOKEN_VARIABLE = "DETENT_URL", "DETENT_TOKEN"
#: The address that is used if neither the caller nor the environment names one.
DEFAULT_URL = "http://127.0.0.1:5680"


def url_from(environment: Mapping[str, str]) -> str:
    """The address that the environment names, else the default one."""
    return bare(environment.get(URL_VARIABLE, "")) or DEFAULT_URL


def token_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The token of the environment, unless it belongs to another address."""
    its_url = bare(environment.get(URL_VARIABLE, ""))
    if its_url and its_url != bare(url):
        return None
    return environment.get(TOKEN_VARIABLE, "").strip() or None


def bare(url: str) -> str:
    """An address without blanks around it and without a slash at its end."""
    return url.strip().rstrip("/")
