"""Every page can be found, every link leads somewhere, every error code is explained."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from detent.error_codes import CODES
from detent.operations.registry import Scope
from tests.docs.pages import FENCE, ROOT

DOCS = ROOT / "docs"
#: Pages that people read in the repository itself.
OUTSIDE = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "ARCHITECTURE.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
        )
    ),
    *sorted((ROOT / "examples").rglob("*.md")),
]
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"(?<!\\)\[[^\]\[]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """What a heading is called in an address: small letters, hyphens, no punctuation."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings)
    return {each.strip().replace(" ", "-") for each in plain}


def test_every_page_is_in_the_navigation() -> None:
    navigation = re.findall(r"[\w/-]+\.md\b", (ROOT / "mkdocs.yml").read_text("utf-8"))
    listed = (DOCS / "decisions" / "index.md").read_text("utf-8")
    pages = {str(page.relative_to(DOCS)) for page in PAGES}
    decisions = {page for page in pages if f"({page.removeprefix('decisions/')})" in listed}
    assert pages - set(navigation) - decisions == set()


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    for link in LINK.findall(text):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} leads to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name_of(page)} leads to {link}"


def test_no_page_has_the_representation_of_a_python_object() -> None:
    shown = re.compile(r"<(?:member|class|function|bound method) '?|object at 0x")
    found = {name_of(page) for page in PAGES if shown.search(page.read_text("utf-8"))}
    assert found == set()


@pytest.mark.parametrize("code", CODES)
def test_every_error_code_is_explained(code: str) -> None:
    text = (DOCS / "reference" / "errors.md").read_text("utf-8")
    found = re.search(rf"^## {code}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{code} has no heading; run ./dev generate"
    row, page = CODES[code], " ".join(found[1].split())
    assert f"**What happened.** {row.meaning}" in page
    assert f"**Why.** {row.why}" in page
    assert f"**What to do.** {row.remedy}" in page


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/reference/modules.md"])
def test_the_files_that_a_page_about_the_code_names_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8").partition("```text\nsrc/detent/")[0]
    found = re.findall(r"`([\w/.]+(?:/|\.py))`", text)
    places = [
        place for place in found if not place.startswith(("tests/", "tools/", "verification/"))
    ]
    assert len(places) > 10
    assert [place for place in places if not (ROOT / "src" / "detent" / place).exists()] == []


def test_the_page_about_tokens_lists_every_scope() -> None:
    text = (DOCS / "howto" / "rotate-tokens.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(Scope)
