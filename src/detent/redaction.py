"""Secrets: named by reference, resolved late, and taken out of everything that is said.

A reference is `env:NAME` or `file:PATH`. Whatever was resolved or remembered here is replaced in
logs, errors, events and output by one function, `redact`. Reads the environment and named files.
"""

import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from detent.errors import Misconfigured

REPLACED = "[secret]"
#: A shorter text is likely to stand somewhere by chance.
SHORTEST = 6
#: Names of variables whose values are secrets.
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|DSN|DATABASE_URL", re.I)
#: What is a secret by its form alone: our tokens and keys, and passwords in addresses.
SECRET_FORM = re.compile(
    r"detent_[A-Za-z0-9_-]{43}|whsec_[A-Za-z0-9+/=]{16,}|(?<=://)[^\s:/@]*:[^\s:/@]+(?=@)"
)

_lock = threading.Lock()
_values: set[str] = set()
_pattern: re.Pattern[str] = SECRET_FORM


def remember(values: Iterable[str]) -> None:
    """Replace these texts from now on, wherever this process says something."""
    global _pattern
    found = {each for value in values for each in (value, value.strip()) if len(each) >= SHORTEST}
    with _lock:
        if found <= _values:
            return
        _values.update(found)
        # The longest first: one secret may begin with another.
        known = sorted(_values, key=len, reverse=True)
        _pattern = re.compile("|".join([*map(re.escape, known), SECRET_FORM.pattern]))


def remember_environment(environment: Mapping[str, str]) -> None:
    """Remember the values of variables that are secrets by their names."""
    remember(value for name, value in environment.items() if SECRET_NAME.search(name))


def redact(text: str) -> str:
    """The text without any secret that is known."""
    return _pattern.sub(REPLACED, text)


def redact_bytes(data: bytes) -> bytes:
    """The same for raw output; bytes that are no text stay as they are."""
    text = data.decode("utf-8", "surrogateescape")
    return redact(text).encode("utf-8", "surrogateescape")


def redact_value(value: Any) -> Any:
    """The same for every text in a JSON value."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(name): redact_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(each) for each in value]
    return value


class Passing:
    """Takes secrets out of a stream that comes in pieces, also where a piece ends within one."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What can be passed on now. What may be the beginning of a secret waits for the rest."""
        data = self._held + piece
        begun = _begun(data)
        self._held = data[len(data) - begun :]
        return redact_bytes(data[: len(data) - begun])

    def end(self) -> bytes:
        """What still waited."""
        held, self._held = self._held, b""
        return redact_bytes(held)


def _begun(data: bytes) -> int:
    """How many bytes at the end begin a secret that has not come whole."""
    longest = 0
    for value in _values.copy():
        secret = value.encode("utf-8", "surrogateescape")
        for length in range(min(len(secret) - 1, len(data)), longest, -1):
            if data.endswith(secret[:length]):
                longest = length
                break
    return longest


# ---- references ------------------------------------------------------------------------------


def resolve(reference: str, setting: str) -> str:
    """The secret that a reference names; it is remembered, so that nobody says it by accident."""
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        secret = os.environ.get(name, "")
        if not secret:
            raise Misconfigured(
                f"The variable {name}, which {setting} names, is not set.", setting=setting
            )
    elif kind == "file" and name:
        secret = _from_file(Path(name).expanduser(), setting)
    else:
        raise Misconfigured(
            f"{setting} must say where the secret is, not be it.",
            setting=setting,
            hint=f"Set {setting} to env:NAME or file:PATH.",
        )
    remember([secret])
    return secret.strip()


def _from_file(path: Path, setting: str) -> str:
    try:
        secret = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"{path}, which {setting} names, cannot be read: {error}", setting=setting
        ) from None
    if not secret:
        raise Misconfigured(f"{path}, which {setting} names, is empty.", setting=setting)
    return secret
