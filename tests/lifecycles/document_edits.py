"""The correct documents of the tests, and edits that plant a defect in one of them."""

import re
from pathlib import Path

from detent.kernel.task_lifecycle import TaskLifecycle
from detent.task_lifecycles.document_file import read_document

#: The texts by name of the file.
DOCUMENTS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "documents").glob("*.toml"))
}
RELEASE = DOCUMENTS["release"]


def read(text: str) -> TaskLifecycle:
    return read_document(text)[1]


def changed(*changes: tuple[str, str], text: str = RELEASE) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def row(source: str, event: str, target: str, who: str = "person") -> str:
    origin = f'from = "{source}"\n' if source else ""
    return f'\n[[rows]]\n{origin}event = "{event}"\nto = "{target}"\nwho = ["{who}"]\nwhy = "x"\n'


def rule(when: str, then: str, more: str = "") -> str:
    listed = f'["{then}"]' if then else "[]"
    return f'[[rules]]\nwhen = "{when}"\n{more}then = {listed}\n'


def timer(state: str, event: str, after: str = "1h") -> str:
    return f'\n[[timers]]\nin = "{state}"\nafter = "{after}"\nevent = "{event}"\n'


def state(name: str, more: str = "") -> str:
    return f'\n[states.{name}]\nmeaning = "x"\n{more}\n'


def without_rows(event: str, text: str = RELEASE) -> str:
    """The document without the rows of an event."""
    found = re.sub(rf'\[\[rows\]\]\n(?:from = .*\n)?event = "{event}"\n(?:.+\n)*', "", text)
    assert found != text
    return found
