"""The kept inputs: for each parser one file of JSON texts, one input in each line.

Bytes that are not UTF-8 are lone surrogates in the text. An input is kept if the smaller ones of
its parser do not reach all the lines of detent that it reaches, in the same order.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from verification.fuzzing.parser import Parser, check

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "tests" / "faults" / "corpus"
SOURCES = str(ROOT / "src" / "detent")
#: The limits of a file, and of one input in it.
MAX_BYTES, MAX_INPUT_BYTES = 24 * 1024, 4 * 1024

#: Two lines of a file that were executed one after the other.
Arc = tuple[str, int, int]


def kept(name: str, directory: Path = DIRECTORY) -> list[bytes]:
    """The kept inputs of a parser."""
    try:
        lines = (directory / f"{name}.jsonl").read_text("ascii").splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line).encode("utf-8", "surrogateescape") for line in lines]


def seeds(name: str, parser: Parser) -> list[bytes]:
    """Where fuzzing begins: the kept inputs, the pieces of valid input, and their beginnings."""
    pieces = [each.encode() for each in parser.scraps]
    joined = [b"".join(pieces[: end + 1]) for end in range(len(pieces))]
    return [*kept(name), b"", *pieces, *joined]


def keep(name: str, inputs: Iterable[bytes], directory: Path = DIRECTORY) -> None:
    """Replace the kept inputs of a parser."""
    text = "".join(map(_line, sorted(set(inputs), key=_order)))
    (directory / f"{name}.jsonl").write_text(text, "ascii")


def minimised(parser: Parser, inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs that reach something which smaller ones do not reach."""
    reached: set[Arc] = set()
    chosen, size = [], 0
    for data in sorted(set(inputs), key=_order):
        if len(data) > MAX_INPUT_BYTES or size + len(_line(data)) > MAX_BYTES:
            continue
        arcs = arcs_of(parser, data)
        if not arcs <= reached:
            reached |= arcs
            chosen.append(data)
            size += len(_line(data))
    return chosen


def arcs_of(parser: Parser, data: bytes) -> set[Arc]:
    """What detent executes for an input."""
    found: set[Arc] = set()

    def enter(frame: FrameType, _event: str, _value: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(SOURCES):
            return None
        last = 0

        def step(frame: FrameType, event: str, _value: Any) -> Any:
            nonlocal last
            if event == "line":
                found.add((file, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        check(parser, data)
    finally:
        sys.settrace(before)
    return found


def _order(data: bytes) -> tuple[int, bytes]:
    return len(data), data


def _line(data: bytes) -> str:
    return json.dumps(data.decode("utf-8", "surrogateescape")) + "\n"
