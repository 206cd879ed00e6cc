"""Says what is wrong when a gateway cannot be reached or is none, and what to do next.

Pure functions from an exception or a response to an error; nothing is sent here.
"""

import socket
import ssl
from http.client import HTTPException

from detent.api_version import HEADER, check_gateway
from detent.errors import DetentError, Misconfigured, Unavailable

#: What OpenSSL found wrong with a certificate: its code, the reason, and what to do.
EXPIRED, NOT_YET_VALID, SELF_SIGNED, SELF_SIGNED_CHAIN = 10, 9, 18, 19
NO_ISSUER, NO_FIRST_ISSUER, WRONG_HOST, WRONG_ADDRESS = 20, 21, 62, 64
_TRUST = (
    "If you trust it, give the certificate of its authority: `detent context add NAME --url URL "
    "--ca-file FILE`, or set SSL_CERT_FILE to the file."
)
_CLOCK = "Renew it on the gateway's machine. If the clock of this machine is wrong, set the clock."
_NAME = "Use a host name that the certificate contains, or have it issued for this name."
CERTIFICATES: dict[int, tuple[str, str]] = {
    EXPIRED: ("it has expired", _CLOCK),
    NOT_YET_VALID: ("it is not valid yet", _CLOCK),
    SELF_SIGNED: ("it is self-signed", _TRUST),
    SELF_SIGNED_CHAIN: ("its authority is not known on this machine", _TRUST),
    NO_ISSUER: ("its authority is not known on this machine", _TRUST),
    NO_FIRST_ISSUER: ("its authority is not known on this machine", _TRUST),
    WRONG_HOST: ("it was issued for another host name", _NAME),
    WRONG_ADDRESS: ("it was issued for another address", _NAME),
}


def from_exception(error: OSError | HTTPException, url: str) -> DetentError:
    """The error for a connection that failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why, remedy = CERTIFICATES.get(
            error.verify_code, (error.verify_message, "Check the certificate of the gateway.")
        )
        return _wrong_address(f"The certificate of {url} is not accepted: {why}.", remedy)
    if isinstance(error, ssl.SSLError):
        return _wrong_address(
            f"{url} does not speak TLS: {error.reason or error}.",
            "If the gateway has no TLS, use http:// in the address; else check the port.",
        )
    if isinstance(error, socket.gaierror):
        return _wrong_address(
            f"{url} cannot be reached: its host name is unknown ({error.strerror}).",
            "Check the address, and the name server of this machine.",
        )
    if isinstance(error, ConnectionRefusedError):
        return _unavailable(f"nothing listens there ({error.strerror})", url)
    if isinstance(error, TimeoutError):
        return _unavailable("it did not answer in time", url)
    if isinstance(error, HTTPException | ConnectionResetError | BrokenPipeError):
        return _unavailable(
            f"it closed the connection or did not send HTTP ({type(error).__name__})",
            url,
            "If the gateway uses TLS, use https:// in the address. Else check that it runs.",
        )
    return _unavailable(str(error.strerror or error), url)


def check_response(status: int, headers: dict[str, str], url: str) -> None:
    """Refuse a response that does not come from a gateway, or from one that is incompatible."""
    supported = headers.get(HEADER.lower())
    if supported is not None:
        check_gateway(supported, url)
    elif 300 <= status < 400:
        elsewhere = headers.get("location", "another address")
        raise _wrong_address(
            f"{url} redirects to {elsewhere}. The token is not sent there.",
            "Use the address of the gateway itself.",
        )
    elif status in (502, 503, 504):
        raise _unavailable(f"the proxy in front of it returned HTTP status {status}", url)
    else:
        raise _wrong_address(
            f"{url} answers, but not as a detent gateway of a compatible version: the response "
            f"with HTTP status {status} has no header {HEADER}.",
            "Check the address. If it is a gateway, upgrade it to the version of this machine.",
        )


def _wrong_address(message: str, hint: str) -> Misconfigured:
    return Misconfigured(message, setting="url", hint=hint)


def _unavailable(why: str, url: str, hint: str = "") -> Unavailable:
    return Unavailable(
        f"{url} does not answer: {why}.",
        retry_after_s=1,
        hint=hint
        or "Check the address and that the gateway runs: `detent up` or `detent serve` starts it "
        "on its machine.",
    )
