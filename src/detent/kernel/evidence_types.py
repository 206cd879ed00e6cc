"""The type of an evidence file by its name, and whether a text is a question or a summary.

The table is ordered and its first match wins. Pure: names and texts only, no file is opened here.
"""

from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase


class EvidenceType(StrEnum):
    """The type of an evidence file."""

    QA_REPORT = "qa_report"
    AUDIT_REPORT = "audit_report"
    LOG = "log"
    TEST_RESULT = "test_result"
    SCREENSHOT = "screenshot"
    ARTIFACT = "artifact"
    UNKNOWN = "unknown"


IMAGE_ENDINGS = ("png", "jpg", "jpeg", "gif", "webp", "bmp", "svg", "tif", "tiff", "avif", "heic")

# Patterns are lower-case: names are compared without regard to letter case.
TYPES_BY_NAME: tuple[tuple[str, EvidenceType], ...] = (
    ("qa-decision.md", EvidenceType.QA_REPORT),
    ("audit-report.md", EvidenceType.AUDIT_REPORT),
    ("*.log", EvidenceType.LOG),
    ("test-results.*", EvidenceType.TEST_RESULT),
    ("coverage.*", EvidenceType.TEST_RESULT),
    *((f"*.{ending}", EvidenceType.SCREENSHOT) for ending in IMAGE_ENDINGS),
    ("*.json", EvidenceType.ARTIFACT),
)

# The second is the full-width mark of Chinese and Japanese text.
QUESTION_MARKS = ("?", "\uff1f")


def type_of(file_name: str) -> EvidenceType:
    """Return the type of a file by its name without directories."""
    name = file_name.rpartition("/")[2].lower()
    for pattern, evidence_type in TYPES_BY_NAME:
        if fnmatchcase(name, pattern):
            return evidence_type
    return EvidenceType.UNKNOWN


def names_of(evidence_type: str) -> list[str]:
    """Return the patterns of the names whose files have a type; none for a name like any other."""
    return [pattern for pattern, each in TYPES_BY_NAME if each == evidence_type]


def is_question(text: str, options: Sequence[object] = ()) -> bool:
    """Whether a text is a question: it has options or a question mark. Else it is a summary."""
    return bool(options) or any(mark in text for mark in QUESTION_MARKS)
