"""The lines of each agent become the expected items of a transcript.

`examples/NAME.jsonl` has lines of each format, as its agent documents them, and
`examples/NAME.items.jsonl` the items that they become, without empty fields.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from detent.transcript.transcript_item import MAX_TEXT
from detent.transcript.transcript_parser import FORMATS, MAX_LINE, TranscriptParser

EXAMPLES = Path(__file__).parent / "examples"
#: Fields that say nothing if they have these values.
USUAL = {"is_error": False, "turn": None, "at": None}
#: 2025-11-17 12:00 UTC, as in the examples.
AT = 1_763_380_800_000_000

Line = dict[str, Any] | str


def example(preset: str) -> bytes:
    return (EXAMPLES / f"{preset}.jsonl").read_bytes()


def expected(preset: str) -> list[dict[str, Any]]:
    lines = (EXAMPLES / f"{preset}.items.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def output_of(lines: Iterable[Line]) -> bytes:
    texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    return "".join(f"{text}\n" for text in texts).encode()


def items_in(output: bytes, preset: str | None = None) -> list[dict[str, Any]]:
    """The items without the fields that are empty."""
    parser = TranscriptParser(preset)
    found = [*parser.feed(output), *parser.end()]
    assert [item.number for item in found] == list(range(1, len(found) + 1))
    return [
        {
            name: value
            for name, value in item._asdict().items()
            if value is not None and value != USUAL.get(name, ...) and name != "number"
        }
        for item in found
    ]


def items_of(lines: Iterable[Line]) -> list[dict[str, Any]]:
    return items_in(output_of(lines))


@pytest.mark.parametrize("preset", FORMATS)
def test_the_lines_of_an_agent_become_items(preset: str) -> None:
    assert items_in(example(preset), preset) == expected(preset)


@pytest.mark.parametrize("preset", [name for name in FORMATS if name != "cursor"])
def test_the_lines_tell_the_format_if_the_preset_does_not(preset: str) -> None:
    assert items_in(example(preset)) == expected(preset)
    assert items_in(example(preset), "plain") == expected(preset)


def test_the_format_of_cursor_is_recognised_although_it_begins_as_another() -> None:
    kinds = [each["kind"] for each in items_in(example("cursor"))]
    assert kinds == [each["kind"] for each in expected("cursor")]


def test_a_failed_run_of_claude_ends_with_its_error() -> None:
    line = {
        "type": "result",
        "subtype": "error_max_turns",
        "is_error": True,
        "errors": ["Reached maximum number of turns"],
        "total_cost_usd": 1,
    }
    error = {"kind": "error", "text": "Reached maximum number of turns", "is_error": True}
    cost = {"kind": "cost", "text": "Total so far", "cost_usd": 1.0}
    assert items_of([line]) == [{**error, "raw_line": 1}, {**cost, "raw_line": 1}]


def test_plain_text_and_unknown_json_stay_as_they_are() -> None:
    lines = [
        "plain words",
        "",
        "  ",
        '{"level": "info", "x": 1}',
        "[1, 2]",
        '{"type": "result"',
        "x\r",
    ]
    assert [(each["kind"], each["text"]) for each in items_of(lines)] == [
        ("text", "plain words"),
        ("text", '{"level": "info", "x": 1}'),
        ("text", "[1, 2]"),
        ("text", '{"type": "result"'),
        ("text", "x"),
    ]


def test_a_long_text_and_a_long_line_are_cut() -> None:
    parser = TranscriptParser()
    block = {"type": "text", "text": "a" * (MAX_TEXT + 5)}
    long = json.dumps({"type": "assistant", "message": {"content": [block]}})
    over = "b" * (MAX_LINE + 1)
    found = list(parser.feed(f"{long}\n{over}\nshort\n".encode()))
    assert [each.kind for each in found] == ["message", "text", "text"]
    assert str(found[0].text).endswith("\n[5 more characters: see the raw output]")
    assert f"a line of {MAX_LINE + 1:,} bytes" in str(found[1].text)
    assert len(str(found[1].text)) < 5_000
    assert found[2].text == "short"


def test_items_have_the_time_of_their_output_if_their_line_has_none() -> None:
    parser = TranscriptParser(time_at=lambda offset: 1_000 + offset)
    timed = json.dumps({"type": "init", "timestamp": "2025-11-17T12:00:00Z", "session_id": "g"})
    found = list(parser.feed(f"one\ntwo\n{timed}\n".encode()))
    assert [each.at for each in found] == [1_000, 1_004, AT]


def test_times_that_are_none_are_ignored() -> None:
    wrong: Any
    for wrong in ("yesterday", "2025-11-17T12:00:00", 1e300, -5, True, [], "0001-01-01T00:00:00Z"):
        line = {"type": "init", "session_id": "g", "timestamp": wrong}
        assert items_of([line]) == [{"kind": "session", "text": "g", "raw_line": 1}]


def test_only_the_first_message_of_a_turn_has_its_tokens() -> None:
    found = [
        each
        for each in items_in(example("claude"))
        if "tokens_in" in each and each["kind"] != "cost"
    ]
    assert [(each["turn"], each["tokens_in"]) for each in found] == [(1, 5209), (2, 20), (3, 30)]
