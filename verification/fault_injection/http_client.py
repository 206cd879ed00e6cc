"""A client that knows what it does not know: one HTTP request, and how it ended.

No retries and no patience of its own: an answer that did not come is unknown, and so is a fault of
the server's.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

from verification.fault_injection.client_history import OK, REFUSED, UNKNOWN

FAULT = 500
#: Made once: reading the machine's certificates costs more than a request. Gateways are local.
_http = httpx2.Client(verify=False, limits=httpx2.Limits(max_keepalive_connections=0))


class Answered(NamedTuple):
    """How a request ended, and the document that came with it."""

    outcome: str
    document: Mapping[str, Any]

    @property
    def code(self) -> str:
        """The error's code; empty if there is none."""
        return str(self.document.get("code", ""))


def ask(
    url: str,
    token: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    key: str = "",
    timeout_s: float = 2.0,
) -> Answered:
    headers = {"Authorization": f"Bearer {token}"}
    if key:
        headers["Idempotency-Key"] = key
    try:
        response = _http.request(method, url + path, json=body, headers=headers, timeout=timeout_s)
        document = response.json() if response.content else {}
    except (httpx2.HTTPError, ValueError) as error:
        return Answered(UNKNOWN, {"detail": f"{type(error).__name__}: {error}"})
    if response.is_success:
        return Answered(OK, document)
    return Answered(UNKNOWN if response.status_code >= FAULT else REFUSED, document)
