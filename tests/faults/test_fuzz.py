"""Every parser of text from outside: any input is read, or refused with a message.

The kept inputs of the fuzzer are read again, and random texts are made from scraps that mean
something to the parser. `./dev fuzz` looks for new inputs.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verification.fuzzing import corpus
from verification.fuzzing.parser import MAX_CPU_S, Parser, Violation, check
from verification.fuzzing.parsers import PARSERS

EXAMPLES = 50
#: Inputs that many parsers do not expect.
COMMON = (
    *(b"", b"[" * 20_000, b'{"a":' * 20_000, b"9" * 20_000, b"- " * 2_000),
    *(b"\xff\xfe\x00", b'"\\ud800"', b"1e999", b"NaN"),
)


def texts(scraps: tuple[str, ...]) -> st.SearchStrategy[str]:
    anything = st.text(max_size=12)
    return st.lists(st.sampled_from(scraps) | anything, max_size=10).map("".join)


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_reads_or_refuses_random_texts(name: str) -> None:
    parser = PARSERS[name]

    @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
    @given(texts(parser.scraps))
    def read(text: str) -> None:
        check(parser, text.encode())

    read()


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_reads_or_refuses_what_was_kept(name: str) -> None:
    inputs = corpus.kept(name)
    assert inputs, f"run ./dev fuzz {name}"
    for data in (*inputs, *COMMON):
        check(PARSERS[name], data)


# ---- the checks themselves ---------------------------------------------------------------------


def test_an_undeclared_error_is_found() -> None:
    with pytest.raises(ZeroDivisionError):
        check(Parser(lambda data: 1 // len(data), ()), b"")


def test_a_refusal_without_a_message_is_found() -> None:
    def refuse(_: bytes) -> None:
        raise ValueError

    with pytest.raises(Violation, match="has no message"):
        check(Parser(refuse, (), (ValueError,)), b"")


def test_a_slow_parser_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    used_s = iter((0.0, MAX_CPU_S + 1))
    monkeypatch.setattr("time.thread_time", lambda: next(used_s))
    with pytest.raises(Violation, match="of processor time"):
        check(Parser(bytes, ()), b"")


def test_inputs_are_kept_as_they_are(tmp_path: Path) -> None:
    inputs = [b"", b"\xff\xfe", "ä".encode(), b'"\n\0', b"\xed\xa0\x80"]
    corpus.keep("one", [*inputs, b""], tmp_path)
    assert sorted(corpus.kept("one", tmp_path)) == sorted(inputs)


def test_an_input_is_kept_if_it_reaches_more() -> None:
    parser = PARSERS["duration"]
    assert corpus.minimised(parser, [b"90s", b"91s", b"x", b"y", b"7"]) == [b"7", b"x"]


def test_the_kept_inputs_are_small_and_belong_to_parsers() -> None:
    files = {path.stem: path.stat().st_size for path in corpus.DIRECTORY.glob("*.jsonl")}
    assert set(files) == set(PARSERS)
    # A failed input is added to what the fuzzer has kept.
    assert max(files.values()) <= 2 * corpus.MAX_BYTES
