"""Reads the values that TLC prints: strings, numbers, booleans and records. Pure."""

import re
from typing import Any

TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?\d+|\|->|[\[\],]|\w+)')
Tokens = list[str]


def read_value(text: str) -> Any:
    """Return a printed value: a record is a dict."""
    return _value(list(reversed(TOKEN.findall(text))))


def _value(tokens: Tokens) -> Any:
    token = tokens.pop()
    if token == "[":
        return _record(tokens)
    if token.startswith('"'):
        return token[1:-1]
    return token == "TRUE" if token in ("TRUE", "FALSE") else int(token)


def _record(tokens: Tokens) -> dict[str, Any]:
    found = {}
    while tokens[-1] != "]":
        name = tokens.pop()
        tokens.pop()  # |->
        found[name] = _value(tokens)
        if tokens[-1] == ",":
            tokens.pop()
    tokens.pop()
    return found
