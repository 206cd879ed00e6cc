"""Identifiers: their form, their order, and that a forked process makes its own."""

import os
import time
import uuid

import pytest

from detent.ids import ALPHABET, OWN_ID, new_id


def number(text: str) -> int:
    value = 0
    for letter in text:
        value = value << 5 | ALPHABET.index(letter)
    return value


def test_an_id_is_a_uuid_of_version_7_made_now() -> None:
    before_ms = time.time_ns() // 1_000_000
    made = uuid.UUID(int=number(new_id()))
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert 0 <= (made.int >> 80) - before_ms < 10_000


def test_ids_rise_and_differ_also_within_a_millisecond() -> None:
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {len(each) for each in made} == {26}


def test_a_forked_process_makes_other_ids() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 100).decode()
    os.close(reader)
    os.close(writer)
    # Past the time and a common generator they would share all but the last few letters.
    assert theirs[13:] != new_id()[13:]
    assert theirs[13:20] != new_id()[13:20]


@pytest.mark.parametrize("text", ["a", "QA-2026.07:x_1", "9", "a-jx", "a" * 100])
def test_own_ids_may_be(text: str) -> None:
    assert OWN_ID.fullmatch(text)


@pytest.mark.parametrize("text", ["", "-a", "a b", "a/b", "a-j1", "x-j1-r2", "ä", "a" * 101])
def test_own_ids_may_not_be(text: str) -> None:
    assert not OWN_ID.fullmatch(text)
