"""A secret that an agent is given and says wherever it can: it is in nothing that detent keeps.

Everything that detent makes of it is looked through, byte by byte: the database, output, events,
errors, answers, logs. Only files that the agent itself leaves are kept as they are: they are
evidence, and their hash says so.
"""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent import redaction
from detent.kernel import commands as c
from detent.operations.queries import show_task, task_events, why
from detent.operations.registry import OWNER
from detent.program_log import JsonLines, TextLines
from tests.agents.scene import Scene, Step, scene

CANARY = "canary-7f3a9c-not-for-anybody"
#: The play's own book, what the agent writes for itself, and what it leaves: its summary here.
NOT_OURS = ("script.json", "/agents/", "/workspaces/", "/blobs/", "/summary.md", "/question.json")

TALKATIVE: list[Step] = [
    {"say": f"the key is {CANARY}"},
    {"raw": f"{CANARY}\n"},
    {"stderr": f"warning: {CANARY}\n"},
    {"summary": f"used {CANARY}"},
    {
        "ask": {
            "text": f"Shall I go on with {CANARY}?",
            "options": [CANARY, {"as": CANARY}, "no"],
            "default": CANARY,
        }
    },
]
BAD_LOSER: list[Step] = [{"stderr": f"cannot log in with {CANARY}\n"}, {"exit": 3}]


@pytest.fixture
def s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(redaction, "_values", set())
    monkeypatch.setattr(redaction, "_pattern", redaction.SECRET_FORM)
    monkeypatch.setenv("HELD_BY_THE_OPERATOR", CANARY)
    with scene(tmp_path) as made:
        yield made


@pytest.fixture
def log_text() -> Iterator[io.StringIO]:
    """The program's log, in both of its forms."""
    stream = io.StringIO()
    handlers = [logging.StreamHandler(stream) for _ in range(2)]
    for handler, formatter in zip(handlers, (TextLines(), JsonLines()), strict=True):
        handler.setFormatter(formatter)
        logging.getLogger("detent").addHandler(handler)
    yield stream
    for handler in handlers:
        logging.getLogger("detent").removeHandler(handler)


def files_with_it(directory: Path) -> list[str]:
    found = []
    for path in sorted(directory.rglob("*")):
        ours = not any(each in str(path) for each in NOT_OURS)
        if path.is_file() and ours and CANARY.encode() in path.read_bytes():
            found.append(str(path.relative_to(directory)))
    return found


def test_a_secret_is_in_nothing_that_is_kept(s: Scene, log_text: io.StringIO) -> None:
    s.script(TALKATIVE, BAD_LOSER, secrets={"API_KEY": "env:HELD_BY_THE_OPERATOR"})
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        s.do(c.AnswerTask(task_id, "no"))
        s.rests("failed")
    logging.getLogger("detent").warning("it reported %s", CANARY)
    answers = [look(s.core, OWNER, task_id=task_id) for look in (show_task, task_events, why)]
    shown = json.dumps(answers, default=str) + str(s.events()) + s.output() + log_text.getvalue()
    assert CANARY not in shown
    assert files_with_it(s.core.settings.data_dir) == []
    # It was really logged, and really redacted.
    assert redaction.REPLACED in s.output()
    assert redaction.REPLACED in log_text.getvalue()
