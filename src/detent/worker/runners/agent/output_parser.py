"""Parses the output of an agent while it runs: bounded lines, and the facts in them.

No output can make this fail or use unbounded memory: a line that is too long is skipped and
counted, a line that is not JSON is only output, and a field of the wrong type is ignored.
"""

import re
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
NUMBERS = ("tokens_in", "tokens_out", "turns", "retry_after_ms", "retry_after_s", "reset_at_s")
TEXTS = ("session_id", "model", "subtype", "text")

DURATION = re.compile(r"\d{1,12}(\.\d{1,12})?")

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

    def __init__(self, agent: Agent, tokens_before: Mapping[str, int] | None = None) -> None:
        self.agent = agent
        #: The tokens of the session's earlier runs.
        self.tokens_before = tokens_before or {}
        self.facts: dict[str, Any] = {}
        self.stderr = ""
        #: Amounts in the order of the lines, each with what it is the total of; the meter takes
        #: them.
        self.costs: list[tuple[Any, str]] = []
        #: The last line of stderr that reports that it repeats a request.
        self.refusal = ""
        #: Whether its last output is such a line, and does not say how long it waits.
        self.is_repeating = False
        #: Whether it was silent for too long after that.
        self.was_silent = False
        self._unfinished = ""

    def read(self, line: bytes) -> bool:
        """Read one line; return whether it contained a fact."""
        self.is_repeating = False
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
            self._take_number(rule, value)
        elif rule.take in TEXTS:
            self._take_text(rule, value)
        else:
            self.facts[rule.take] = value
        return True

    def _take_number(self, rule: LineRule, value: Any) -> None:
        if isinstance(value, str) and value.isdecimal() and len(value) < 16:
            value = int(value)  # the value of a header, for example
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < 1 << 53:
            return
        total = int(value)
        if rule.counts == "session":
            total = max(0, total - self.tokens_before.get(rule.take, 0))
        elif rule.counts == "line":
            total += self.facts.get(rule.take, 0)
        self.facts[rule.take] = total

    def _take_text(self, rule: LineRule, value: Any) -> None:
        if isinstance(value, str):
            before = self.facts.get(rule.take, "") if rule.joined else ""
            self.facts[rule.take] = (before + value)[:MAX_TEXT]

    def complain(self, text: str) -> None:
        """Add output from stderr; its end is kept."""
        self.stderr = (self.stderr + text)[-MAX_TAIL:]
        self.is_repeating = False
        recent = (self._unfinished + text)[-MAX_TAIL:]
        self._unfinished = recent.rpartition("\n")[2]
        pattern = self.agent.retry_pattern
        for found in () if pattern is None else pattern.finditer(recent):
            self.refusal = _line_at(recent, found)
            wait_ms = _stated_ms(found)
            self.is_repeating = wait_ms is None
            if wait_ms is not None:
                self.facts["retry_after_ms"] = wait_ms

    @property
    def ended(self) -> bool:
        """A line has reported the end of the work."""
        return bool(self.facts.get("end"))

    @property
    def waits_too_long(self) -> bool:
        """It has reported that it waits, longer than it may, to repeat a request."""
        waits_ms = self.facts.get("retry_after_ms", 0)
        return not self.ended and waits_ms > self.agent.longest_retry_s * 1_000

    @property
    def has_waited(self) -> bool:
        """It was stopped, or has to be, because it waits too long to repeat a request."""
        return self.waits_too_long or (self.was_silent and not self.ended)

    def seen(self, exit_code: int, resumed: bool) -> dict[str, str]:
        """The values that the rules for ends can match, as text."""
        shown = {name: _text(value) for name, value in self.facts.items()}
        if self.has_waited and self.refusal:
            shown["refusal"] = self.refusal
        return {
            **shown,
            "end": "yes" if self.ended else "no",
            "resumed": "yes" if resumed else "no",
            "exit_code": str(exit_code),
            "stderr": self.stderr,
        }


def _line_at(text: str, found: "re.Match[str]") -> str:
    """The line in which a match begins."""
    begin = text.rfind("\n", 0, found.start()) + 1
    return text[begin:].partition("\n")[0]


def _stated_ms(found: "re.Match[str]") -> int | None:
    """How long the agent waits, by a match of its `retry_pattern`; None if it does not say."""
    for name, unit_ms in (("s", 1_000), ("ms", 1)):
        text = found.groupdict().get(name)
        if text is not None and DURATION.fullmatch(text):
            return round(float(text) * unit_ms)
    return None


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
