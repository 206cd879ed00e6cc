"""The entries of `hosts`: which hosts and addresses they allow."""

import ipaddress

import pytest

from detent.allowed_hosts import address_refusal, allowed_hosts, name_refusal
from detent.errors import Invalid

ENTRIES = ["Api.example.com", "*.files.example.com", "db.example.com:5432", "192.0.2.7", "[::1]:80"]


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        ("api.example.com", 443, True),
        ("API.example.COM.", 80, True),
        ("api.example.com", 8443, False),
        ("example.com", 443, False),
        ("evil-api.example.com", 443, False),
        ("api.example.com.evil.org", 443, False),
        ("a.files.example.com", 443, True),
        ("files.example.com", 443, False),
        ("evilfiles.example.com", 443, False),
        ("db.example.com", 5432, True),
        ("db.example.com", 443, False),
        ("192.0.2.7", 443, True),
        ("192.0.2.8", 443, False),
        ("::1", 80, True),
        ("localhost", 80, False),
        ("127.0.0.1", 80, False),
        ("2130706433", 80, False),
        ("0x7f.1", 80, False),
        ("169.254.169.254", 80, False),
    ],
)
def test_only_named_hosts_and_ports_are_allowed(host: str, port: int, allowed: bool) -> None:
    entries = allowed_hosts(ENTRIES, "hosts")
    assert (name_refusal(host, port, entries) is None) == allowed


@pytest.mark.parametrize(
    ("address", "entries", "allowed"),
    [
        ("1.1.1.1", ["api.example.com"], True),
        ("10.0.0.5", ["api.example.com"], False),
        ("10.0.0.5", ["api.example.com", "10.0.0.0/8"], True),
        ("10.0.0.5", ["api.example.com", "10.0.0.5:8080"], False),
        ("169.254.169.254", ["*"], False),
        ("127.0.0.1", ["*"], False),
        ("::ffff:127.0.0.1", ["*"], False),
        ("127.0.0.1", ["localhost"], True),
        ("fd00::1", ["*"], False),
    ],
)
def test_a_name_covers_public_addresses_only(
    address: str, entries: list[str], allowed: bool
) -> None:
    found = address_refusal(ipaddress.ip_address(address), 443, allowed_hosts(entries, "hosts"))
    assert (found is None) == allowed


def test_every_public_host_is_no_private_address() -> None:
    entries = allowed_hosts(["*"], "hosts")
    allowed = ["example.com", "1.1.1.1", "127.0.0.1", "10.0.0.1"]
    found = [name_refusal(host, 443, entries) is None for host in allowed]
    assert found == [True, True, False, False]


@pytest.mark.parametrize(
    "entry", ["", "http://example.com", "a b", "12345", "*.*.com", "host:0", "host:70000", "10.0/8"]
)
def test_what_is_no_host_is_refused_with_what_is_allowed(entry: str) -> None:
    with pytest.raises(Invalid, match=r"hosts: .* is not a host\. Write a name"):
        allowed_hosts([entry], "hosts")


def test_named_ports_of_the_loopback_are_forwarded() -> None:
    entries = allowed_hosts(["localhost:5432", "127.0.0.1:80", "example.com:8080"], "hosts")
    assert [list(each.loopback_ports()) for each in entries] == [[5432], [], []]
