"""The README's handler is one that works: it asks, survives a crash, uploads once, and returns."""

import importlib.util
from pathlib import Path

from detent.kernel import commands as c
from detent.testing.inline import Harness
from tests.docs.pages import ROOT, blocks

#: What the README leaves to the reader.
REST = """
uploads = []

def make_build(version):
    return f"shop-{version}"

def upload(build):
    uploads.append(build)

def is_uploaded(key):
    return bool(uploads)
"""


def test_the_handler_of_the_readme(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    (code,) = (block.text for block in blocks(readme) if block.language == "python")
    file = tmp_path / "readme.py"
    file.write_text(code + REST)
    spec = importlib.util.spec_from_file_location("readme", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    harness = Harness(module.app)
    harness.crash(after="build")
    handle = harness.submit("release", {"version": "1.4.0"}, lifecycle="review")
    harness.drain(advance=True)
    task = handle.task()
    assert task is not None
    assert (task.state, task.blocked_by) == ("blocked", "question")
    harness.engine.do(c.AnswerTask(task.id, "yes"), c.Actor("person"))
    harness.drain(advance=True)
    assert handle.result(timeout=0) == "shop-1.4.0"
    assert handle.state() == "ready"
    assert module.uploads == ["shop-1.4.0"]
