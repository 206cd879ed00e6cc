"""What pages show as configuration or as code would be taken: settings exist, Python compiles."""

from pathlib import Path
from textwrap import dedent

import pytest

from detent.intents import agents_from, intents_from
from detent.operations.limits import limits_from
from detent.operations.thresholds import check
from detent.settings import load
from detent.worker.app import App
from tests.docs.pages import ROOT, Block, blocks

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)


def shown(language: str) -> list[pytest.ParameterSet]:
    """Every block of a language, also one that stands in a list."""
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}:{number}")
        for page in PAGES
        for number, block in enumerate(blocks(dedent_fences(page.read_text("utf-8"))))
        if block.language == language
    ]


def dedent_fences(text: str) -> str:
    """Fences of list items begin where their text begins; here all begin on the left."""
    return "\n".join(
        line[3:] if line.startswith("   ") and not line.startswith("    ") else line
        for line in text.split("\n")
    )


@pytest.mark.parametrize("block", shown("toml"))
def test_a_configuration_that_a_page_shows_is_taken(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "detent.toml"
    file.write_text(dedent(block.text))
    loaded = load(environment={}, file=file)
    check(loaded.settings)
    limits_from(loaded.tables)
    App.from_config(intents_from(loaded.tables), agents_from(loaded.tables))


@pytest.mark.parametrize("block", shown("python"))
def test_python_that_a_page_shows_compiles(block: Block) -> None:
    compile(dedent(block.text), "page", "exec")
