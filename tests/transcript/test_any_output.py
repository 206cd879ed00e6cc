"""No output breaks the transcript: any bytes, any JSON, in any chunks, from any position."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from detent.transcript.transcript_item import KINDS, MAX_TEXT, TranscriptItem
from detent.transcript.transcript_parser import FORMATS, TranscriptParser
from tests.transcript.test_formats import example, output_of

WHOLE = b"".join(map(example, FORMATS))
PRESETS = st.sampled_from([None, "plain", *FORMATS])
#: Lines as agents print them, with a part replaced by anything.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "subtype",
                        "message",
                        "content",
                        "text",
                        "item",
                        "part",
                        "state",
                        "id",
                    ),
                    *("tool_call", "input", "changes", "edits", "path", "old_string", "sessionID"),
                    *(
                        "result",
                        "usage",
                        "status",
                        "role",
                        "delta",
                        "tool_name",
                        "tool_id",
                        "errors",
                    ),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
TYPES = st.sampled_from(
    [
        *("assistant", "user", "system", "result", "thread.started", "turn.completed", "error"),
        *("item.started", "item.completed", "item.updated", "init", "message", "tool_use"),
        *("tool_result", "step_start", "step_finish", "text", "tool_call", "thinking", "unknown"),
    ]
)
OBJECTS = st.dictionaries(st.text(max_size=8), VALUES, max_size=3)


def parsed(chunks: list[bytes], preset: str | None = None) -> list[TranscriptItem]:
    parser = TranscriptParser(preset)
    return [item for chunk in chunks for item in parser.feed(chunk)] + list(parser.end())


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({min(each, len(data)) for each in at} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8), PRESETS)
def test_any_bytes_in_any_chunks(data: bytes, at: list[int], preset: str | None) -> None:
    assert parsed(cut(data, at), preset) == parsed([data], preset)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20), PRESETS)
def test_lines_of_agents_in_any_chunks(at: list[int], preset: str | None) -> None:
    assert parsed(cut(WHOLE, at), preset) == parsed([WHOLE], preset)


@given(st.integers(0, len(WHOLE)), PRESETS)
def test_parsing_continues_from_any_position(at: int, preset: str | None) -> None:
    first = TranscriptParser(preset)
    items = list(first.feed(WHOLE[:at]))
    position = first.position()
    rest = [*position.feed(WHOLE[position.offset :]), *position.end()]
    assert items + rest == parsed([WHOLE], preset)
    # The position that was copied is not changed by its copy.
    assert [*items, *first.feed(WHOLE[at:]), *first.end()] == items + rest


@given(TYPES, OBJECTS, VALUES, PRESETS)
def test_any_json_gives_valid_items(
    kind: str, line: dict[str, Any], value: Any, preset: str | None
) -> None:
    fields = ("message", "item", "part", "tool_call", "error", "subtype", "content", "sessionID")
    lines = [{**line, "type": kind, **dict.fromkeys(fields, value)}, {**line, "type": kind}, line]
    data = "\n".join(json.dumps(each) for each in lines).encode()
    items = parsed([data], preset)
    assert [each.number for each in items] == list(range(1, len(items) + 1))
    for item in items:
        assert item.kind in KINDS
        texts = (item.text, item.tool, item.tool_id, item.input, item.output, item.path, item.diff)
        for text in texts:
            assert text is None or (isinstance(text, str) and len(text) < MAX_TEXT + 100)
            str(text).encode()  # it can be sent: no half of a surrogate pair
        assert isinstance(item.is_error, bool)


def test_deeply_nested_json_is_shown_as_text() -> None:
    deep = b'{"type":"tool_use","tool_name":"x","parameters":' + b"[" * 100_000 + b"\n"
    nested = b'{"type":"tool_use","tool_name":"x","parameters":' + b"[" * 500 + b"]" * 500 + b"}\n"
    items = parsed([deep, nested])
    assert [item.kind for item in items] == ["text", "tool_call"]


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=30))
def test_a_result_has_the_tool_of_its_call(ids: list[str]) -> None:
    lines: list[Any] = []
    for number, tool_id in enumerate(ids):
        call = {"type": "tool_use", "tool_name": f"tool{number}", "tool_id": tool_id}
        lines += [call, {"type": "tool_result", "tool_id": tool_id, "status": "success"}]
    items = parsed([output_of(lines)])
    assert [item.tool for item in items] == [f"tool{at // 2}" for at in range(len(items))]


def test_the_parser_keeps_little_of_what_it_has_read() -> None:
    parser = TranscriptParser()
    calls = (
        {"type": "tool_use", "tool_name": "x", "tool_id": f"id{number}", "parameters": {}}
        for number in range(5_000)
    )
    count = sum(1 for _ in parser.feed(output_of(calls)))
    assert count == 5_000
    assert len(parser._calls) <= 200
    parts = output_of(
        {"type": "message", "role": "x", "content": "y" * 99, "delta": True} for _ in range(5_000)
    )
    long = list(parser.feed(parts))
    assert sum(len(str(item.text)) for item in long) > 300_000
    assert parser._delta_size <= MAX_TEXT + 99
    for _ in range(40):
        assert list(parser.feed(b"x" * 131_072)) == []
    assert sum(map(len, parser._parts)) <= 2 * 1024 * 1024
