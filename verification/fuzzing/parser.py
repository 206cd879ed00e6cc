"""A parser under test: how it is called, which errors it declares, and what holds for any input."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from click import ClickException

from detent.errors import DetentError

#: The limit for one input, in processor time: other programs on the machine do not count.
MAX_CPU_S = 5.0


@dataclass(frozen=True, slots=True)
class Parser:
    """Reads bytes: returns any value, or raises one of its declared errors with a message."""

    read: Callable[[bytes], object]
    #: Pieces of valid input. Random texts are made from them, and the fuzzer inserts them.
    scraps: tuple[str, ...]
    errors: tuple[type[Exception], ...] = (DetentError, ClickException)


class Violation(AssertionError):
    """An input for which the parser broke its promise."""


def check(parser: Parser, data: bytes) -> None:
    """Read an input. Any undeclared exception passes through; `Violation` names other faults."""
    begun_s = time.thread_time()
    try:
        parser.read(data)
    except parser.errors as error:
        if not str(error):
            raise Violation(f"{type(error).__name__} has no message") from error
    used_s = time.thread_time() - begun_s
    if used_s > MAX_CPU_S:
        raise Violation(f"it took {used_s:.1f} s of processor time")


def same(first: object, second: object, what: str) -> None:
    """Both ways to the same value must agree."""
    if first != second:
        raise Violation(f"{what}: {first!r:.200} is not {second!r:.200}")


# ---- how parsers get their input ---------------------------------------------------------------


def text(data: bytes) -> str:
    """Text from a file or from the network."""
    return data.decode("utf-8", "replace")


def argument(data: bytes) -> str:
    """An argument of a command or a variable: bytes that are not UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def header(data: bytes) -> str:
    """The value of an HTTP header."""
    return data.decode("latin-1")


def of_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(text(data))


def of_argument(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(argument(data))


def of_header(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(header(data))


def if_table(read: Callable[[Mapping[str, Any]], object]) -> Callable[[Any], object]:
    """For a parser that is only called with a JSON object."""
    return lambda value: read(value) if isinstance(value, dict) else None
