"""Outgoing HTTP to addresses that others have named: looked up once, checked, and kept short.

The name is resolved here and the connection goes to the very address that was checked. Private
addresses are refused unless a setting allows them, redirects are not followed, answers are cut.
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
#: The most time that one request takes as a whole, and the most that is read of its answer.
LONGEST_S = 15.0
MAX_BYTES = 16_384


class Failed(Exception):
    """It was not sent, or no answer came; the text says why."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Outgoing:
    """Posts bodies. Every request has a connection of its own, for one name and one address."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed
        self._trusted = ssl.create_default_context()

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer, whatever its status."""
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
            raise Failed(f"no answer: {type(error).__name__}: {error}") from None

    async def _send(self, request: httpx2.Request) -> Answer:
        """Asynchronous, because that can be left at any moment: a receiver may also trickle."""
        status, headers, body = 0, {}, b""
        # A proxy would look the name up again, and a pooled connection may be another name's.
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
            raise TimeoutError(f"not within {LONGEST_S:g} s")
        return Answer(status, headers, body[:MAX_BYTES])

    def _address(self, url: httpx2.URL) -> Address:
        """The address to connect to; none of those that the name stands for may be refused."""
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            found = socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Failed(f"{url.host} cannot be found: {error}") from None
        addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
        for address in addresses:
            self._check(address, url)
        return addresses[0]

    def _check(self, address: Address, url: httpx2.URL) -> None:
        reason = refusal(url.host, url.scheme, address, self._allowed)
        if reason is not None:
            raise Failed(reason)
