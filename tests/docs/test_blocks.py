"""What pages show as configuration or as code would be taken: settings exist, Python compiles."""

import re
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from detent.app.app import App
from detent.intent_config import agents_from, intents_from
from detent.limit_config import limits_from
from detent.settings_loader import load
from detent.task_lifecycles.document_file import read_document
from detent.thresholds import check
from tests.docs.pages import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)

ANY_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)[^\n`]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def shown(language: str) -> list[pytest.ParameterSet]:
    """Every block of a language, also one inside a list."""
    return [
        pytest.param(dedent(found["text"]), id=f"{page.relative_to(ROOT)}:{number}")
        for page in PAGES
        for number, found in enumerate(ANY_FENCE.finditer(page.read_text("utf-8")))
        if found["language"] == language
    ]


@pytest.mark.parametrize("text", shown("toml"))
def test_a_configuration_that_a_page_shows_is_taken(text: str, tmp_path: Path) -> None:
    if "states" in tomllib.loads(text):
        read_document(text)  # the document of a lifecycle
        return
    file = tmp_path / "detent.toml"
    file.write_text(text)
    loaded = load(environment={}, file=file)
    check(loaded.settings)
    limits_from(loaded.tables)
    App.from_config(intents_from(loaded.tables), agents_from(loaded.tables))


@pytest.mark.parametrize("text", shown("python"))
def test_python_that_a_page_shows_compiles(text: str) -> None:
    compile(text, "page", "exec")
