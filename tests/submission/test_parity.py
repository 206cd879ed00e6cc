"""The same requests get the same result at each of the eight entry points of a submission."""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.submission.entries import (
    Cli,
    Embedded,
    Entry,
    Http,
    Mcp,
    Outcome,
    RunToken,
    Scene,
    Schedules,
    Subtask,
    Transactional,
    scene,
)

Fields = Mapping[str, Any]

GOOD = {"customer": "c", "items": [1, 2]}
ORDER = {"intent": "order", "payload": GOOD}
FREE = {"intent": "free"}
#: Placeholder for the id of an existing task.
KNOWN = "KNOWN"
PLAN = {"steps": [{"name": "a", "intent": "free"}]}
NEEDS_BROWSER = {"steps": [{"name": "a", "intent": "free", "capabilities_required": ["browser"]}]}

ACCEPTED: Mapping[str, Fields] = {
    "plain": ORDER,
    "no payload": FREE,
    "a list as payload": {**FREE, "payload": [1, 2]},
    "a text as payload": {**FREE, "payload": "text"},
    "further fields of the payload": {**ORDER, "payload": {**GOOD, "more": None}},
    "all arguments": {**ORDER, "payload": {**GOOD, "urgent": True}},
    "title": {**ORDER, "title": "Order 7"},
    "priority": {**ORDER, "priority": "P1"},
    "priority by its alias": {**ORDER, "priority": "High"},
    "tags, one twice": {**ORDER, "tags": ["a", "b", "a"]},
    "budget": {**ORDER, "max_budget_usd": 2.5},
    "project": {**ORDER, "project": "demo"},
    "board": {**ORDER, "lifecycle": "Board"},
    "an installed lifecycle": {**ORDER, "lifecycle": "delivery"},
    "source": {**ORDER, "source": "chat"},
    "own id": {**ORDER, "id": "OWN"},
    "option": {**ORDER, "options": {"max_rounds": 3}},
    "plan": {**FREE, "options": {"plan": PLAN}},
    "dependency": {**ORDER, "depends_on": [KNOWN]},
    "not before a time": {**ORDER, "not_before": "2099-01-01T12:00:00+01:00"},
    "not before a delay": {**ORDER, "not_before": "10m"},
}
REFUSED: Mapping[str, tuple[Fields, str, str]] = {
    "unknown intent": ({"intent": "fly"}, "unknown_intent", "intent"),
    "intent is no text": ({"intent": 5}, "invalid", "intent"),
    "nothing": ({}, "invalid", "intent"),
    "unknown field": ({**ORDER, "colour": "red"}, "invalid", "colour"),
    "payload is null": ({**ORDER, "payload": None}, "invalid", "payload"),
    "no arguments": ({"intent": "order"}, "invalid", "payload.customer"),
    "an argument is missing": (
        {**ORDER, "payload": {"customer": "c"}},
        "invalid",
        "payload.items",
    ),
    "an argument is of another type": (
        {**ORDER, "payload": {**GOOD, "customer": 5}},
        "invalid",
        "payload.customer",
    ),
    "a number as text": (
        {**ORDER, "payload": {**GOOD, "items": [1, "2"]}},
        "invalid",
        "payload.items[1]",
    ),
    "a payload of another type": ({**ORDER, "payload": [1]}, "invalid", "payload"),
    "unknown priority": ({**ORDER, "priority": "P9"}, "invalid", "priority"),
    "unknown lifecycle": ({**ORDER, "lifecycle": "job"}, "invalid", "lifecycle"),
    "unknown source": ({**ORDER, "source": "fax"}, "invalid", "source"),
    "unknown project": ({**ORDER, "project": "other"}, "invalid", "project"),
    "empty tag": ({**ORDER, "tags": ["a", ""]}, "invalid", "tags[1]"),
    "title too long": ({**ORDER, "title": "x" * 501}, "invalid", "title"),
    "budget as text": ({**ORDER, "max_budget_usd": "5"}, "invalid", "max_budget_usd"),
    "budget below nothing": ({**ORDER, "max_budget_usd": -1}, "invalid", "max_budget_usd"),
    "no resource offers it": (
        {**FREE, "options": {"plan": NEEDS_BROWSER}},
        "invalid",
        "capabilities_required",
    ),
    "neither time nor delay": ({**ORDER, "not_before": "tomorrow"}, "invalid", "not_before"),
}
#: How many of the 328 combinations must run.
LEAST = 200


def test_the_same_request_gets_the_same_result_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(ACCEPTED) + len(REFUSED) == 41
    with scene(tmp_path, monkeypatch) as place:
        token = RunToken(place)
        entries: list[Entry] = [
            Http(place),
            Cli(place, monkeypatch),
            Mcp(place),
            Embedded(place),
            Transactional(place),
            Schedules(place),
            token,
            Subtask(place),
        ]
        table = Table(place, token.sibling())
        for entry in entries:
            table.run(entry)
    with capsys.disabled():
        sys.stdout.write(f"\n{table.shown()}\n")
    assert len(entries) * 41 == table.counts.total() == 328
    assert table.counts["run"] >= LEAST
    assert table.differences == []


class Table:
    """The result of each combination."""

    def __init__(self, place: Scene, known: str) -> None:
        self.place, self.known = place, known
        self.counts: Counter[str] = Counter()
        self.omitted: list[tuple[str, str, str]] = []
        self.differences: list[str] = []
        self.facts: dict[str, dict[str, Any]] = {}

    def run(self, entry: Entry) -> None:
        for name, request in ACCEPTED.items():
            self._one(entry, name, self._own(entry, request), None)
        for name, (request, code, field) in REFUSED.items():
            self._one(entry, name, request, Outcome(code=code, field=field))

    def _own(self, entry: Entry, request: Fields) -> Fields:
        own = {"id": f"own-{entry.name.replace(' ', '-').replace(chr(39), '')}"}
        known = {"depends_on": [self.known]}
        return {
            name: (own | known).get(name, value) if value in ("OWN", [KNOWN]) else value
            for name, value in request.items()
        }

    def _one(self, entry: Entry, name: str, request: Fields, wanted: Outcome | None) -> None:
        reason = entry.lacks(request)
        if reason:
            self.counts["omitted"] += 1
            self.omitted.append((entry.name, name, reason))
            return
        self.counts["run"] += 1
        before = self.place.head()
        outcome = entry.submit(request)
        if wanted is not None:
            self._refused(entry, name, outcome, wanted, before)
        elif outcome.task_id is None:
            self.differences.append(f"{entry.name}, {name}: refused with {outcome}")
        else:
            self._accepted(entry, name, request, outcome.task_id)

    def _refused(
        self, entry: Entry, name: str, outcome: Outcome, wanted: Outcome, before: int
    ) -> None:
        if outcome != wanted:
            self.differences.append(f"{entry.name}, {name}: {outcome} instead of {wanted}")
        # The handler that submits a subtask also appends events.
        if entry.name != Subtask.name and self.place.head() != before:
            self.differences.append(f"{entry.name}, {name}: something was stored")

    def _accepted(self, entry: Entry, name: str, request: Fields, task_id: str) -> None:
        """A field that was not given may be inherited or set by the entry point."""
        found = self.place.facts(task_id)
        compared = {"intent", "payload", "options", *request} - {"id"}
        if "not_before" in compared:
            delayed = request["not_before"].endswith("m")
            compared = compared - {"not_before"} | {"after_s" if delayed else "starts_at"}
        if "max_budget_usd" in compared:
            compared = compared - {"max_budget_usd"} | {"budget"}
        facts = {each: found[each] for each in sorted(compared)}
        first = self.facts.setdefault(name, facts)
        if facts != first:
            self.differences.append(f"{entry.name}, {name}: {facts} instead of {first}")

    def shown(self) -> str:
        rows = [f"{entry:22} {name:32} {reason}" for entry, name, reason in self.omitted]
        summary = f"{self.counts['run']} of 328 combinations run, {self.counts['omitted']} omitted"
        return "\n".join([*rows, summary])
