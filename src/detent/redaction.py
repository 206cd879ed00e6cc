"""Secrets: resolves references to them, and redacts them from logs, errors, events and output.

A reference is `env:NAME` or `file:PATH`. `redact` replaces every secret that was resolved or
remembered here. Reads the environment and the named files.
"""

import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from detent.errors import Misconfigured

REPLACED = "[secret]"
#: The minimum length of a secret: shorter texts occur by chance.
MIN_LENGTH = 6
#: The names of environment variables whose values are secrets.
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|DSN|DATABASE_URL", re.I)
#: The prefixes of tokens that are secrets by their form, the letters that follow, and the minimum
#: number of these: tokens of detent, GitHub, GitLab, Anthropic, OpenAI, Slack and AWS.
TOKEN_FORMS = (
    ("detent_", "A-Za-z0-9_-", 43),
    ("whsec_", "A-Za-z0-9+/=", 16),
    *((f"gh{kind}_", "A-Za-z0-9_.-", 36) for kind in "oprsu"),
    ("github_pat_", "A-Za-z0-9_", 40),
    ("glpat-", "A-Za-z0-9_.-", 20),
    ("sk-ant-", "A-Za-z0-9_-", 40),
    ("sk-proj-", "A-Za-z0-9_-", 40),
    *((f"xox{kind}-", "A-Za-z0-9-", 20) for kind in "abeprs"),
    ("AKIA", "A-Z0-9", 16),
)
#: Texts that are secrets by their form: tokens, and passwords in URLs.
SECRET_FORM = re.compile(
    "|".join(
        (
            *(f"{prefix}[{letters}]{{{least},}}" for prefix, letters, least in TOKEN_FORMS),
            r"(?<=://)[^\s:/@]*:[^\s:/@]+(?=@)",
        )
    )
)

#: How many bytes at the end of a stream are searched for the beginning of such a text.
MAX_FORM = 4_096


def _beginnings(word: str) -> str:
    """A pattern of the beginnings of a word, without the whole word."""
    return "|".join(word[:length] for length in range(1, len(word)))


#: The end of a stream that may be the beginning of such a text; the secret in a URL is after `://`.
FORM_BEGINNING = re.compile(
    (
        "(?:"
        + "|".join(
            f"{_beginnings(prefix)}|{prefix}[{letters}]*" for prefix, letters, _ in TOKEN_FORMS
        )
        + rf"|{_beginnings('://')}|://[^\s:/@]*(?::[^\s:/@]*)?)\Z"
    ).encode()
)

_lock = threading.Lock()
_values: set[str] = set()
_pattern: re.Pattern[str] = SECRET_FORM


def remember(values: Iterable[str]) -> None:
    """Redact these texts from now on in everything that this process writes."""
    global _pattern
    found = {each for value in values for each in (value, value.strip()) if len(each) >= MIN_LENGTH}
    with _lock:
        if found <= _values:
            return
        _values.update(found)
        # The longest first: one secret may be the beginning of another.
        known = sorted(_values, key=len, reverse=True)
        _pattern = re.compile("|".join([*map(re.escape, known), SECRET_FORM.pattern]))


def remember_environment(environment: Mapping[str, str]) -> None:
    """Remember the values of the environment variables whose names mark them as secrets."""
    remember(value for name, value in environment.items() if is_secret_name(name))


def is_secret_name(name: str) -> bool:
    """Whether the name of an environment variable marks its value as a secret."""
    return SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """Replace every known secret in a text."""
    return _pattern.sub(REPLACED, text)


def redact_bytes(data: bytes) -> bytes:
    """Replace every known secret in raw output; bytes that are not UTF-8 are kept."""
    text = data.decode("utf-8", "surrogateescape")
    return redact(text).encode("utf-8", "surrogateescape")


def redact_value(value: Any) -> Any:
    """Replace every known secret in the texts of a JSON value."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(name): redact_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(each) for each in value]
    return value


class StreamRedactor:
    """Redacts a stream that arrives in chunks, also if a secret spans two chunks."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """The redacted bytes so far; the possible beginning of a secret is buffered."""
        data = self._held + piece
        safe = len(data) - _partial_secret(data)
        redacted, self._held = _redact_until(data, safe)
        return redacted

    def end(self) -> bytes:
        """The redacted bytes that were buffered."""
        held, self._held = self._held, b""
        return redact_bytes(held) if held else b""


def _redact_until(data: bytes, end: int) -> tuple[bytes, bytes]:
    """Redact what begins before `end`, and return the rest as it is. No secret is cut there."""
    text = data.decode("utf-8", "surrogateescape")
    at = len(data[:end].decode("utf-8", "surrogateescape"))
    parts, done = [], 0
    for found in _pattern.finditer(text):
        if found.start() >= at:
            break
        parts += [text[done : found.start()], REPLACED]
        done = found.end()
    rest = max(at, done)
    parts.append(text[done:rest])
    redacted = "".join(parts).encode("utf-8", "surrogateescape")
    return redacted, text[rest:].encode("utf-8", "surrogateescape")


def _partial_secret(data: bytes) -> int:
    """How many bytes at the end may be the beginning of a secret: a known one, or one by form."""
    end = data[-MAX_FORM:]
    found = FORM_BEGINNING.search(end)
    longest = 0 if found is None else len(end) - found.start()
    for value in _values.copy():
        secret = value.encode("utf-8", "surrogateescape")
        for length in range(min(len(secret) - 1, len(data)), longest, -1):
            if data.endswith(secret[:length]):
                longest = length
                break
    return longest


# ---- references ------------------------------------------------------------------------------


def resolve(reference: str, setting: str) -> str:
    """Return the secret that a reference names, and remember it for redaction."""
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        secret = os.environ.get(name, "").strip()
        if not secret:
            raise Misconfigured(
                f"The environment variable {name}, which {setting} names, is not set.",
                setting=setting,
            )
    elif kind == "file" and name:
        secret = _from_file(Path(name).expanduser(), setting)
    else:
        raise Misconfigured(
            f"{setting} must be a reference to the secret, not the secret itself.",
            setting=setting,
            hint=f"Set {setting} to env:NAME or file:PATH.",
        )
    remember([secret])
    return secret


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
