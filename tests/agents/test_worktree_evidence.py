"""What a worker keeps of a worktree: the diff, and the changed images before and after."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.review.unified_diff import parse_diff
from detent.worker import worktree_evidence
from detent.worker.run_files import Kept, RunFiles
from detent.worker.workspaces import Staged, Workspaces
from detent.worker.worktree_evidence import MAX_IMAGES, keep_changes
from tests.agents.scene import Scene, Step
from tests.worker.waiting import until

ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
PNG = b"\x89PNG\r\n\x1a\n\0"


def git(where: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *who, "-C", str(where), *arguments], check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repos" / "app"
    (made / "art").mkdir(parents=True)
    (made / "art" / "logo.png").write_bytes(PNG + b"old")
    (made / "gone.gif").write_bytes(b"GIF89a\0")
    (made / "code.py").write_text("x = 1\n")
    git(made, "init", "--quiet", "--initial-branch", "main")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "first")
    return made


@pytest.fixture
def work(tmp_path: Path, repo: Path) -> Path:
    return Workspaces(tmp_path).branch_for("task-1", repo, None, ENVIRONMENT).work


@contextmanager
def staged(directory: Path) -> Iterator[Staged]:
    found = Workspaces(directory).find("task-1")
    assert found is not None
    with found.staged(ENVIRONMENT, directory / "index.part", list) as made:
        assert made is not None
        yield made


def kept(directory: Path) -> dict[str, bytes]:
    """The evidence by name, which the run's directory contains too."""
    files = RunFiles(directory / "runs", "run-1")
    with staged(directory) as made:
        found: list[Kept] = keep_changes(made, files)
    assert {each.file for each in found} == {each.file for each in files.collect()}
    evidence = files.path / "evidence"
    return {each.file: (evidence / each.file).read_bytes() for each in found}


def test_changed_images_are_kept_before_and_after(tmp_path: Path, work: Path) -> None:
    (work / "art" / "logo.png").write_bytes(PNG + b"new")
    (work / "gone.gif").unlink()
    (work / "added name.JPG").write_bytes(b"\xff\xd8\xff\0")
    (work / "code.py").write_text("x = 2\n")
    found = kept(tmp_path)
    assert {file.path for file in parse_diff(found.pop("changes.diff")).files} == {
        *("art/logo.png", "gone.gif", "added name.JPG", "code.py")
    }
    assert found == {
        "images/before/art/logo.png": PNG + b"old",
        "images/after/art/logo.png": PNG + b"new",
        "images/before/gone.gif": b"GIF89a\0",
        "images/after/added name.JPG": b"\xff\xd8\xff\0",
    }


def test_a_worktree_without_changes_has_an_empty_diff(tmp_path: Path, work: Path) -> None:
    assert (work / "code.py").exists()
    assert kept(tmp_path) == {"changes.diff": b""}


def test_images_that_the_agent_left_as_evidence_are_replaced(tmp_path: Path, work: Path) -> None:
    evidence = tmp_path / "runs" / "run-1" / "evidence"
    outside = tmp_path / "outside"
    outside.mkdir()
    (evidence / "images" / "before" / "art").mkdir(parents=True)
    (evidence / "images" / "before" / "fake.png").write_bytes(b"fake")
    (evidence / "images" / "after").symlink_to(outside)
    (evidence / "changes.diff").write_text("fake")
    (work / "art" / "logo.png").write_bytes(PNG + b"new")
    found = kept(tmp_path)
    assert set(found) == {
        *("changes.diff", "images/before/art/logo.png", "images/after/art/logo.png")
    }
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_the_images_is_removed(tmp_path: Path, work: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    evidence = tmp_path / "runs" / "run-1" / "evidence"
    evidence.mkdir(parents=True)
    (evidence / "images").symlink_to(outside)
    (work / "new.png").write_bytes(PNG)
    assert "images/after/new.png" in kept(tmp_path)
    assert list(outside.iterdir()) == []


def test_images_that_cannot_be_kept_are_left_out(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktree_evidence, "MAX_IMAGE_BYTES", 100)
    deep = work.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (deep / "deep.png").write_bytes(PNG)
    (work / "large.png").write_bytes(PNG + b"x" * 100)
    (work / ".hidden.png").write_bytes(PNG)
    (work / "line\nfeed.png").write_bytes(PNG)
    (work / os.fsdecode(b"\xff.png")).write_bytes(PNG)
    (work / "link.png").symlink_to("code.py")
    (work / "small.png").write_bytes(PNG)
    found = kept(tmp_path)
    assert set(found) == {"changes.diff", "images/after/small.png"}
    assert len(parse_diff(found["changes.diff"]).files) == 7


def test_only_the_first_images_are_kept(tmp_path: Path, work: Path) -> None:
    for number in range(MAX_IMAGES + 5):
        (work / f"{number:03}.png").write_bytes(PNG + b"%d" % number)
    assert len(kept(tmp_path)) == MAX_IMAGES + 1


def test_the_images_of_a_run_are_its_evidence(s: Scene, repo: Path) -> None:
    s.script([{"write": {"new.png": "image", "code.py": "x = 3\n"}}], repos=[str(repo.parent)])
    s.intent(workspace="worktree")
    s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
    assert s.evidence() == {"changes.diff": "unknown", "images/after/new.png": "screenshot"}


def test_files_that_an_agent_leaves_cannot_displace_its_diff(
    s: Scene, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.worker.run_files.MAX_FILES", 1)
    left = {"a.txt": "first", "b.txt": "second"}
    s.script(
        [{"evidence": left}, {"write": {"code.py": "x = 3\n"}}],
        repos=[str(repo.parent)],
    )
    s.intent(workspace="worktree")
    s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
    assert s.evidence() == {"changes.diff": "unknown", "a.txt": "unknown"}


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_stopped_agent_keeps_its_diff_and_its_evidence(
    s: Scene, repo: Path, cancelled: bool
) -> None:
    left: list[Step] = [{"write": {"code.py": "x = 3\n"}}, {"evidence": {"run.log": "ran"}}]
    s.script([*left, {"say": "waiting"}, {"hang": 600}], repos=[str(repo.parent)])
    s.intent(workspace="worktree", idle_timeout_s=3_600 if cancelled else 1.5)
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        until(lambda: s.runs() and "waiting" in s.output(), "the agent waits")
        if cancelled:
            s.do(c.CancelTask(task_id))
        s.rests("cancelled" if cancelled else "timed_out")
    assert s.evidence() == {"changes.diff": "unknown", "run.log": "log"}
