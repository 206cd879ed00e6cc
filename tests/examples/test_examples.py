"""Every example does what its page says: copied to an empty place, and its commands typed."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Reader
from tests.ports import free_port
from verification.notion.notion_server import NotionServer, serving

EXAMPLES = ROOT / "examples"
#: Many real processes, each of which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(900)


def reader_of(name: str, home: Path, replaced: Mapping[str, str] | None = None) -> Reader:
    """A user who has copied the example."""
    reader = Reader(home, replaced)
    shutil.copytree(EXAMPLES / name, reader.place, dirs_exist_ok=True)
    return reader


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_nightly_qa_is_reported_to_notion(home: Path, tmp_path: Path) -> None:
    notion = NotionServer()
    token = tmp_path / "notion-token"
    token.write_text(notion.token)
    with serving(notion) as url, reader_of("nightly-qa", home) as reader:
        # The keeper is not configured for Notion: the page's own command copies the data.
        notes = {"TOKEN": f"file:{token}", "PARENT": notion.parent, "URL": url}
        settings = "".join(f"export DETENT_NOTION_{key}={value}\n" for key, value in notes.items())
        reader.replaced["detent notion sync"] = f"{settings}detent notion sync"
        output = reader.follow(EXAMPLES / "nightly-qa" / "README.md")
        assert "- good: pass" in output
        assert "- bad: FAIL" in output
        assert "- empty: NO TESTS" in output
        assert len(notion.rows("detent tasks")) == 4


def test_code_review_waits_for_a_person(home: Path) -> None:
    with reader_of("code-review", home) as reader:
        output = reader.follow(EXAMPLES / "code-review" / "README.md")
    assert output.index("APPROVE. total()") < output.index("CHANGES REQUESTED: total()")
    assert "$0.05" in output


def test_the_pipeline_switches(home: Path) -> None:
    with reader_of("pipeline", home) as reader:
        output = reader.follow(EXAMPLES / "pipeline" / "README.md")
    assert "step_switching_resource" in output
    assert "holiday.mov.1080" in output
    assert "drained" in output


def test_the_shop_submits_in_its_own_transaction(home: Path, empty_postgres_url: str) -> None:
    replaced = {
        "postgresql://localhost/shop": empty_postgres_url,
        "8000": (port := str(free_port())),
    }
    replaced["export SHOP_DATABASE"] = f"export SHOP_PORT={port} SHOP_DATABASE"
    with reader_of("fastapi-shop", home, replaced) as reader:
        output = reader.follow(EXAMPLES / "fastapi-shop" / "README.md")
    assert "Sold out." in output
    assert "2030-0001" in output


def test_a_chat_answers(home: Path) -> None:
    with reader_of("chat-answers", home, {"8090": str(free_port())}) as reader:
        output = reader.follow(EXAMPLES / "chat-answers" / "README.md")
    assert "Deploy 1.4.0? Write: answer" in output
    assert "Thank you, ada." in output
    assert "was answered" in output
    assert "Thank you, bob." not in output
