"""Parses the output of an agent while it runs: bounded lines, and the facts in them.

No output can make this fail or use unbounded memory: a line that is too long is skipped and
counted, a line that is not JSON is only output, and a field of the wrong type is ignored.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from detent.app.agent_config import Agent, LineRule

#: The longest line that is read for facts, and what is kept of one for the output.
MAX_LINE = 8 * 1024 * 1024
MAX_SHOWN = 64 * 1024
MAX_TEXT = 200_000
MAX_TAIL = 8_000
NUMBERS = ("tokens_in", "tokens_out", "turns", "retry_after_ms", "reset_at_s")
TEXTS = ("session_id", "subtype", "text")

_decode = msgspec.json.Decoder().decode


class Lines:
    """Splits chunks into lines; buffers at most one line of the allowed length."""

    def __init__(self, most: int = MAX_LINE) -> None:
        self.most = most
        self.too_long = 0
        self._parts: list[bytes] = []
        self._held = 0
        self._passing = False

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        """The complete lines, each with whether it is whole; for a long line, its beginning."""
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            if not self._parts and not self._passing and len(piece) <= self.most:
                yield piece, True  # most lines come whole, and a flood has a great many
                continue
            self._hold(piece)
            yield from self._line()
        self._hold(rest)

    def end(self) -> Iterator[tuple[bytes, bool]]:
        """The last line, if no newline ended it."""
        if self._parts or self._passing:
            yield from self._line()

    def _hold(self, piece: bytes) -> None:
        if self._passing or not piece:
            return
        if self._held + len(piece) > self.most:
            self._passing = True
            self.too_long += 1
            self._parts = [b"".join(self._parts)[:MAX_SHOWN] or piece[:MAX_SHOWN]]
            return
        self._parts.append(piece)
        self._held += len(piece)

    def _line(self) -> Iterator[tuple[bytes, bool]]:
        line, whole = b"".join(self._parts), not self._passing
        self._parts, self._held, self._passing = [], 0, False
        yield line, whole


class Reader:
    """Collects the facts from the lines of one process, by the rules of its agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.facts: dict[str, Any] = {}
        self.stderr = ""
        #: Amounts in the order of the lines, each with what it is the total of; the meter takes
        #: them.
        self.costs: list[tuple[Any, str]] = []

    def read(self, line: bytes) -> bool:
        """Read one line; return whether it contained a fact."""
        if not line.lstrip().startswith(b"{"):
            return False
        try:
            found = _decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        taken = [
            rule for rule in self.agent.lines if isinstance(found, dict) and _fits(rule, found)
        ]
        found_facts = [rule.take for rule in taken if self._take(rule, found)]
        return bool(found_facts)

    def _take(self, rule: LineRule, line: Mapping[str, Any]) -> bool:
        value = _at(line, rule.path) if rule.path else rule.value
        if value is None:
            return False
        if rule.take == "cost":
            self.costs.append((value, rule.counts or self.agent.cost_counts))
        elif rule.take in NUMBERS:
            self._take_number(rule.take, value)
        elif rule.take in TEXTS:
            self._take_text(rule, value)
        else:
            self.facts[rule.take] = value
        return True

    def _take_number(self, name: str, value: Any) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53:
            self.facts[name] = int(value)

    def _take_text(self, rule: LineRule, value: Any) -> None:
        if isinstance(value, str):
            before = self.facts.get(rule.take, "") if rule.joined else ""
            self.facts[rule.take] = (before + value)[:MAX_TEXT]

    def complain(self, text: str) -> None:
        """Add output from stderr; its end is kept."""
        self.stderr = (self.stderr + text)[-MAX_TAIL:]

    @property
    def ended(self) -> bool:
        """A line has reported the end of the work."""
        return bool(self.facts.get("end"))

    def seen(self, exit_code: int, resumed: bool) -> dict[str, str]:
        """The values that the rules for ends can match, as text."""
        shown = {name: _text(value) for name, value in self.facts.items()}
        return {
            **shown,
            "end": "yes" if self.ended else "no",
            "resumed": "yes" if resumed else "no",
            "exit_code": str(exit_code),
            "stderr": self.stderr,
        }


def _fits(rule: LineRule, line: Mapping[str, Any]) -> bool:
    if rule.having is not None and _found(line, rule.having) is None:
        return False
    if rule.lacking is not None and _found(line, rule.lacking) is not None:
        return False
    return all(_is(_found(line, name), want) for name, want in rule.when.items())


def _found(line: Mapping[str, Any], name: str) -> Any:
    return _at(line, tuple(name.split(".")))


def _is(value: Any, want: str) -> bool:
    return isinstance(value, str | bool | int | float) and _text(value) == want


def matches(when: Mapping[str, str], seen: Mapping[str, str]) -> bool:
    """Whether all patterns match; a missing value matches no pattern."""
    return all(name in seen and fnmatchcase(seen[name], pattern) for name, pattern in when.items())


def _at(line: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        line = line.get(name) if isinstance(line, Mapping) else None
    return line


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "; ".join(value)
    if value is None or isinstance(value, bool | int | float | Decimal):
        return str(value)
    return msgspec.json.encode(value).decode()
