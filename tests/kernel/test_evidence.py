"""Evidence types by file name, first match first, and what makes a file a question."""

import pytest

from detent.kernel.evidence_types import is_question, type_of


@pytest.mark.parametrize(
    ("name", "evidence_type"),
    [
        ("QA-DECISION.md", "qa_report"),
        ("qa-decision.MD", "qa_report"),
        ("AUDIT-REPORT.md", "audit_report"),
        ("build.log", "log"),
        ("BUILD.LOG", "log"),
        ("test-results.xml", "test_result"),
        ("coverage.xml", "test_result"),
        ("coverage.json", "test_result"),
        ("Test-Results.json", "test_result"),
        ("test-results.log", "log"),
        ("coverage.png", "test_result"),
        ("page.png", "screenshot"),
        ("page.JPG", "screenshot"),
        ("page.jpeg", "screenshot"),
        ("page.gif", "screenshot"),
        ("page.webp", "screenshot"),
        ("page.svg", "screenshot"),
        ("report.json", "artifact"),
        ("out/deep/report.json", "artifact"),
        ("coverage.d/notes.txt", "unknown"),
        ("a.log/QA-DECISION.md", "qa_report"),
        ("MY-QA-DECISION.md", "unknown"),
        ("coverage", "unknown"),
        ("my-coverage.xml", "unknown"),
        ("logfile", "unknown"),
        ("log", "unknown"),
        ("x.jsonl", "unknown"),
        ("README.md", "unknown"),
        ("", "unknown"),
        ("build.log/", "unknown"),
        ("[a].json", "artifact"),
    ],
)
def test_the_type_comes_from_the_name(name: str, evidence_type: str) -> None:
    assert type_of(name) == evidence_type


@pytest.mark.parametrize(
    ("text", "options", "question"),
    [
        ("Which branch?", [], True),
        ("选哪个分支？", [], True),
        ("Is it? I do not know.", [], True),
        ("Choose one.", ["a", "b"], True),
        ("", ["a"], True),
        ("All done.", [], False),
        ("", [], False),
        ("完成。", (), False),
    ],
)
def test_a_question_has_a_mark_or_options(text: str, options: list[str], question: bool) -> None:
    assert is_question(text, options) is question
