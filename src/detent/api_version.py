"""The version of the HTTP API, and the rule that says which clients and gateways work together.

The number changes when a route or a field changes in a way that older clients do not understand;
a new route or field does not change it. Client and gateway each support a range of numbers and send
it in the header `Detent-Api`. They work together if the ranges have a number in common.
"""

import re

from detent.errors import Invalid

#: The newest version of the API that this release speaks, and the oldest that it still accepts.
NEWEST, OLDEST = 1, 1
HEADER = "Detent-Api"
#: The value of the header.
SUPPORTED = f"{OLDEST}-{NEWEST}"
_RANGE = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


def check_client(given: str) -> None:
    """Refuse a request whose client supports no version of the API that this gateway supports."""
    oldest, newest = _range(given)
    if newest < OLDEST:
        raise _incompatible(
            f"The client is too old for this gateway: it speaks version {given} of the API, and "
            f"the gateway {SUPPORTED}.",
            given,
            "Upgrade detent on the client's machine to the version of the gateway.",
        )
    if oldest > NEWEST:
        raise _incompatible(
            f"The gateway is too old for this client: the client speaks version {given} of the "
            f"API, and the gateway {SUPPORTED}.",
            given,
            "Upgrade the gateway, or use a client with the version of the gateway.",
        )


def check_gateway(given: str, url: str) -> None:
    """Refuse a gateway that supports no version of the API that this client supports."""
    oldest, newest = _range(given)
    if newest < OLDEST:
        raise _incompatible(
            f"The gateway at {url} is too old for this version of detent: it speaks version "
            f"{given} of the API, and this machine {SUPPORTED}.",
            given,
            "Upgrade the gateway, or install its version of detent on this machine.",
        )
    if oldest > NEWEST:
        raise _incompatible(
            f"This version of detent is too old for the gateway at {url}: it speaks version "
            f"{SUPPORTED} of the API, and the gateway {given}.",
            given,
            "Upgrade detent on this machine to the version of the gateway.",
        )


def _range(given: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(given)
    if found is None:
        raise _incompatible(
            f"The header {HEADER} must be two numbers such as {SUPPORTED}, not {given[:40]!r}.",
            given,
            "Upgrade the older of the two: detent on the client's machine, or the gateway.",
        )
    return int(found[1]), int(found[2])


def _incompatible(message: str, given: str, hint: str) -> Invalid:
    return Invalid(message, field=HEADER, given=given, code="incompatible_version", hint=hint)
