"""SECURITY.md names tests as proof: each rule names some, and each of them exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NAMED = sorted(set(TEST.findall(PAGE)))


def rules_of(page: str) -> dict[str, str]:
    """The text of each rule in the section of that name, by its first words."""
    section = page.partition("\n## Rules\n")[2].partition("\n## ")[0]
    rules = re.split(r"^- (?=\*)", section, flags=re.MULTILINE)[1:]
    return {each.split("*")[1]: each for each in rules}


RULES = rules_of(PAGE)


def unproven(rules: dict[str, str]) -> list[str]:
    """The rules that no test is named for."""
    return [name for name, text in rules.items() if not TEST.search(text)]


def test_there_is_a_table() -> None:
    assert len(NAMED) > 15


def test_every_rule_names_a_test() -> None:
    assert len(RULES) >= 18
    assert unproven(RULES) == []


def test_a_rule_without_a_test_is_noticed() -> None:
    page = (
        "\n## Rules\n\n- *Kept.* So.\n  Held by `tests/a.py::test_b`.\n- *Bare.* So.\n\n## More\n"
    )
    assert unproven(rules_of(page)) == ["Bare."]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_what_is_named_as_proof_exists(file: str, name: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file} has no {name}"
