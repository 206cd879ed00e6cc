"""Outgoing HTTP requests to URLs that users configured, with checks of the resolved address.

The host name is resolved once, and the connection goes to the address that was checked; this
prevents DNS rebinding. Private addresses are refused unless a setting allows them, redirects are
not followed, and responses are truncated.
"""

import ipaddress
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import anyio
import httpx2

from detent.addresses import Address, Network, refusal

TIMEOUT_S = 5.0
#: The maximum duration of a request, and the maximum number of bytes read of its response.
LONGEST_S = 15.0
MAX_BYTES = 16_384


class Failed(Exception):
    """The request was not sent, or no response came; the message says why."""


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Outgoing:
    """Sends POST requests. Every request uses its own connection to one checked address."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed
        self._trusted = ssl.create_default_context()

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Response:
        """The response, whatever its status."""
        target = httpx2.URL(url)
        address = self._address(target)
        timeout = httpx2.Timeout(TIMEOUT_S)
        request = httpx2.Request(
            "POST",
            target.copy_with(host=str(address)),
            headers={**headers, "Host": target.netloc.decode("ascii")},
            content=body,
            extensions={"sni_hostname": target.host, "timeout": timeout.as_dict()},
        )
        try:
            return anyio.run(self._send, request)
        except (httpx2.HTTPError, ssl.SSLError, OSError) as error:
            raise Failed(f"no response: {type(error).__name__}: {error}") from None

    async def _send(self, request: httpx2.Request) -> Response:
        """Asynchronous, so that the timeout also ends a response that arrives slowly."""
        status, headers, body = 0, {}, b""
        # A proxy would resolve the name again, and a pooled connection may belong to another name.
        client = httpx2.AsyncClient(trust_env=False, follow_redirects=False, verify=self._trusted)
        async with client:
            with anyio.move_on_after(LONGEST_S):
                response = await client.send(request, stream=True)
                status, headers = response.status_code, dict(response.headers)
                async for piece in response.aiter_raw(4_096):
                    body += piece
                    if len(body) >= MAX_BYTES:
                        break
        if not status:
            raise TimeoutError(f"no response within {LONGEST_S:g} s")
        return Response(status, headers, body[:MAX_BYTES])

    def _address(self, url: httpx2.URL) -> Address:
        """The address to connect to; all addresses of the host name must be allowed."""
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            found = socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Failed(f"{url.host} cannot be resolved: {error}") from None
        addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
        for address in addresses:
            self._check(address, url)
        return addresses[0]

    def _check(self, address: Address, url: httpx2.URL) -> None:
        reason = refusal(url.host, url.scheme, address, self._allowed)
        if reason is not None:
            raise Failed(reason)
