"""SECURITY.md names tests as proof: each of them exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text("utf-8"))


def test_there_is_a_table() -> None:
    assert len(NAMED) > 15


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_what_is_named_as_proof_exists(file: str, name: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
