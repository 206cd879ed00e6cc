"""Strict JSON at the edge, as a property: what it takes is what everybody takes it for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import DetentError, TooLarge
from detent.gateway.strict_json import MAX_INTEGER, Limits, decode, once

LIMITS = Limits(size=10_000, depth=8, text=100)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
LEAVES = (
    st.none()
    | st.booleans()
    | TEXTS
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=10,
)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 2]))
def test_every_plain_document_is_read_as_it_was_written(
    value: Any, escaped: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    if depth(value) > LIMITS.depth:
        with pytest.raises(TooLarge):
            decode(text, LIMITS)
    else:
        assert decode(text, LIMITS) == value


def attempt(body: bytes) -> tuple[bool, Any]:
    """Whether it was read, with the value or the status of the refusal."""
    try:
        return True, decode(body, LIMITS)
    except DetentError as error:
        return False, error.status


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_words(body: bytes) -> None:
    read, found = attempt(body)
    if read:
        assert json.loads(body) == found
    else:
        assert found in (400, 413, 422)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5))
def test_a_key_is_given_once(keys: list[str]) -> None:
    body = "{" + ",".join(f'"{key}": 1' for key in keys) + "}"
    if len(set(keys)) == len(keys):
        assert decode(body.encode(), LIMITS) == dict.fromkeys(keys, 1)
    else:
        with pytest.raises(DetentError, match="repeated in"):
            decode(body.encode(), LIMITS)


def test_a_key_that_is_written_in_two_ways_is_given_twice() -> None:
    with pytest.raises(DetentError, match="repeated in"):
        decode(b'{"a": 1, "\\u0061": 2}', LIMITS)


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (b"[" * 8 + b"]" * 8, True),
        (b"[" * 9 + b"]" * 9, False),
        (b'{"a": ' * 8 + b"1" + b"}" * 8, True),
        (b'{"a": ' * 9 + b"1" + b"}" * 9, False),
        (b'"' + b"x" * 100 + b'"', True),
        (b'"' + b"x" * 101 + b'"', False),
        (b'{"' + b"x" * 101 + b'": 1}', False),
        (b"[" + b"1," * 90 + b"1]", True),
    ],
)
def test_limits_are_exact(body: bytes, fits: bool) -> None:
    if fits:
        assert decode(body, LIMITS) == json.loads(body)
    else:
        with pytest.raises(TooLarge):
            decode(body, LIMITS)


@pytest.mark.parametrize("number", [MAX_INTEGER, -MAX_INTEGER, 1.7e308, 1e-400])
def test_the_largest_numbers(number: float) -> None:
    assert decode(json.dumps(number).encode(), LIMITS) == number


@pytest.mark.parametrize("text", [b"1" + b"0" * 100, b"-1" + b"0" * 100, b"1e309"])
def test_larger_numbers(text: bytes) -> None:
    with pytest.raises(DetentError) as raised:
        decode(text, LIMITS)
    assert raised.value.code == "unreadable"


def test_a_parameter_is_given_once_in_a_query() -> None:
    assert once([("a", "1"), ("b", "2")]) == {"a": "1", "b": "2"}
    with pytest.raises(DetentError, match="twice in"):
        once([("a", "1"), ("a", "1")])
