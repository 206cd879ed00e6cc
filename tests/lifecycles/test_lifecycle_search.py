"""The search of a lifecycle: correct documents pass, a defect is found by the shortest path."""

from pathlib import Path

import pytest

from detent.lifecycle_search import search
from detent.task_lifecycles import SHIPPED
from detent.task_lifecycles.document_file import read_document

DOCUMENTS = Path(__file__).parent / "documents"
RELEASE = (DOCUMENTS / "release.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_lifecycles_pass(name: str) -> None:
    result = search(SHIPPED[name])
    assert result.violation is None
    assert result.exhausted


def test_the_bound_is_reported() -> None:
    result = search(read_document(RELEASE)[1], max_states=100)
    assert (result.states, result.exhausted, result.violation) == (100, False, None)
