"""Public network addresses, and the addresses that outgoing requests may use.

The list comes from the IANA registries of special-purpose addresses
(iana-ipv4-special-registry, iana-ipv6-special-registry) and of multicast and reserved space: what
`ipaddress` calls private or global differs between versions of Python. Every block of the
registries counts as not public, also the few that are reachable: no webhook receiver is there.
"""

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult

from detent.errors import Misconfigured

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space of carriers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link local
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112-v4
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # deprecated 6to4 relay anycast
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # direct delegation AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, limited broadcast
    )
)
#: Global unicast. Other addresses are loopback, local, multicast or reserved.
UNICAST_V6 = ipaddress.IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(each)
    for each in (
        "2001::/23",  # IETF protocol assignments, Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # direct delegation AS112
        "3fff::/20",  # documentation
    )
)
#: IPv6 networks that embed an IPv4 address, and the number of bits after that address.
EMBEDDING = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # IPv4/IPv6 translation
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4
)


def is_public(address: Address) -> bool:
    """Whether an address is reachable on the internet; an embedded IPv4 address counts."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in each for each in NOT_PUBLIC_V4)
    for network, behind in EMBEDDING:
        if address in network:
            return is_public(ipaddress.IPv4Address(int(address) >> behind & 0xFFFFFFFF))
    return address in UNICAST_V6 and not any(address in each for each in NOT_PUBLIC_V6)


def networks(given: Sequence[str], setting: str) -> list[Network]:
    """Parse the private networks of a setting."""
    try:
        return [ipaddress.ip_network(each) for each in given]
    except ValueError as error:
        raise Misconfigured(
            f"{setting}: {error}",
            setting=setting,
            hint="Write each network in CIDR notation, such as 10.0.0.0/8.",
        ) from None


def refusal(host: str, scheme: str, address: Address, allowed: Sequence[Network]) -> str | None:
    """Why a request to this address of a host is refused; None if it is allowed."""
    if any(address in each for each in allowed if each.version == address.version):
        return None
    if not is_public(address):
        return f"{host} is {address}, which is not a public address"
    if scheme != "https":
        return "only https may go to public addresses"
    return None


def known_refusal(url: SplitResult, allowed: Sequence[Network]) -> str | None:
    """Why every request to a URL would be refused, as far as known without a DNS lookup."""
    host = url.hostname or ""
    for address in _known_addresses(host):
        reason = refusal(host, url.scheme, address, allowed)
        if reason is not None:
            return reason
    if url.scheme != "https" and not allowed:
        return "only https may go to public addresses, and no private network is allowed"
    return None


def _known_addresses(host: str) -> list[Address]:
    """The addresses of a host that need no DNS lookup: a literal address, or localhost."""
    if host == "localhost" or host.endswith(".localhost"):
        return [ipaddress.IPv4Address("127.0.0.1")]
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
