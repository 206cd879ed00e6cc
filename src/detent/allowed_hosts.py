"""The hosts that a program in the sandbox may connect to: the entries of `hosts`, and the check.

An entry is a host name (`api.example.com`), the names below one (`*.example.com`), every public
host (`*`), an address (`192.0.2.7`) or a network (`10.0.0.0/8`), each with a port if it is not 80
or 443 (`db.example.com:5432`, `[2001:db8::1]:8080`). A name covers public addresses only: an
address that is not public needs an entry of its own. Pure.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from detent.addresses import Address, Network, is_public
from detent.errors import Invalid

#: The ports of an entry that names none.
WEB_PORTS = (80, 443)
LONGEST_NAME = 253
LOCALHOST, LOOPBACK = "localhost", ipaddress.IPv4Address("127.0.0.1")
#: The ports below it need a capability, which programs in the sandbox do not have.
FIRST_PORT = 1_024
EVERY = "*"
NAME = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
WITH_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """One entry. It has a name, a network, or (localhost) both."""

    name: str | None
    network: Network | None
    ports: Sequence[int]

    def covers_name(self, host: str, port: int) -> bool:
        if self.name is None or port not in self.ports:
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:])
        return self.name in (host, EVERY)

    def covers_address(self, address: Address, port: int) -> bool:
        same = self.network is not None and self.network.version == address.version
        return same and port in self.ports and address in (self.network or ())

    def loopback_ports(self) -> Sequence[int]:
        """The ports of 127.0.0.1 on the machine that it names and that every program can open."""
        if self.network is None or LOOPBACK.version != self.network.version:
            return ()
        return [port for port in self.ports if port >= FIRST_PORT and LOOPBACK in self.network]


def allowed_host(given: str, where: str) -> AllowedHost:
    """The entry that a text describes; Invalid says what an entry can be."""
    text = given.strip().lower()
    split = WITH_PORT.fullmatch(text)
    host, ports = (split["host"], (int(split["port"]),)) if split else (text, WEB_PORTS)
    network = _network(host.removeprefix("[").removesuffix("]"))
    name = None if network is not None and host != LOCALHOST else host
    usable_name = name is None or name == EVERY or (len(name) <= LONGEST_NAME and _is_name(name))
    if not usable_name or not all(1 <= port <= 65_535 for port in ports):
        raise Invalid(
            f"{where}: {given!r} is not a host. Write a name, *.name, an address or a network, "
            "with :port if it is not 80 or 443.",
            field=where,
            given=given,
        )
    return AllowedHost(name, network, ports)


def allowed_hosts(given: Iterable[str], where: str) -> tuple[AllowedHost, ...]:
    return tuple(allowed_host(each, where) for each in given)


def name_refusal(host: str, port: int, allowed: Sequence[AllowedHost]) -> str | None:
    """Why a host is refused before its name is resolved; None if an entry names it."""
    known = literal_address(host)
    if known is not None:
        named = any(each.covers_address(known, port) for each in allowed)
        # Every public host includes the public addresses.
        named |= is_public(known) and any(
            each.name == EVERY and port in each.ports for each in allowed
        )
    else:
        name = host.lower().rstrip(".")
        named = any(each.covers_name(name, port) for each in allowed)
    return None if named else "no entry of the allowed hosts names it"


def address_refusal(address: Address, port: int, allowed: Sequence[AllowedHost]) -> str | None:
    """Why an address of an allowed host is refused; None if it is public or named itself."""
    if is_public(address) or any(each.covers_address(address, port) for each in allowed):
        return None
    return f"its address {address} is not public, and no entry of the allowed hosts names it"


def literal_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _network(host: str) -> Network | None:
    """The network of an address or a CIDR text; localhost is the loopback address."""
    try:
        return ipaddress.ip_network(str(LOOPBACK) if host == LOCALHOST else host)
    except ValueError:
        return None


def _is_name(host: str) -> bool:
    """Whether it can be a DNS name: at least one letter, so that no number passes as one."""
    return NAME.fullmatch(host) is not None and re.search("[a-z]", host) is not None
