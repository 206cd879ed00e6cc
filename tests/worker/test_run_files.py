"""The files of a run: its output, its evidence, and what a program leaves in their places."""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from detent import redaction
from detent.app import retried_calls
from detent.errors import Invalid, StoreUnavailable, TooLarge, Unavailable
from detent.store.blobs import Blob
from detent.store.memory import MemoryStore
from detent.worker import run_files
from detent.worker.retried_blobs import RetriedBlobs
from detent.worker.run_files import RunFiles

AWAY = Unavailable("The store is unavailable.", retry_after_s=1)


def test_output_is_appended_up_to_its_limit(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1", max_output=10)
    assert not (tmp_path / "r1").exists()
    run.write("12345")
    run.write(b"67890abc")
    run.write("more")
    assert run.output() == b"1234567890" + run_files.CUT


def test_output_that_reaches_its_limit_exactly_is_cut_by_what_follows(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1", max_output=10)
    run.write("1234567890")
    assert run.output() == b"1234567890"
    run.write("more")
    run.write("more")
    assert run.output() == b"1234567890" + run_files.CUT


def test_output_that_was_cut_before_it_arrived_says_so_once(tmp_path: Path) -> None:
    redaction.remember(["a-secret-that-is-long"])
    run = RunFiles(tmp_path, "r1", max_output=100)
    run.write(b"the key is a-secret-that-is-long, not a-sec")
    run.cut_output()
    run.cut_output()
    run.write("more")
    run.end_output()
    # The possible beginning of a secret is not written.
    assert run.output() == b"the key is [secret], not " + run_files.CUT


def test_several_threads_of_a_handler_write_output(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    lines = [f"{number:03} is buffered because of its last letter: d" for number in range(400)]

    def write(own: list[str]) -> None:
        for line in own:
            run.write(line)
            run.write("\n")

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, [lines[start::4] for start in range(4)]))
    finally:
        sys.setswitchinterval(before_s)
    run.end_output()
    text = run.output().decode()
    assert run.written == len(text)
    assert all(text.count(line) == 1 for line in lines)


def test_evidence_is_stored_when_the_store_is_available_again(tmp_path: Path) -> None:
    stored = MemoryStore().blobs

    class Away:
        tries = 0

        def put(self, file: BinaryIO) -> Blob:
            self.tries += 1
            if self.tries < 3:
                file.read(2)  # a part was sent before the connection was lost
                raise AWAY
            return stored.put(file)

    blobs: Any = Away()
    kept = RunFiles(tmp_path, "r1", blobs=RetriedBlobs(blobs)).keep("a.log", "text")
    assert blobs.tries == 3
    assert b"".join(stored.read(kept.sha256)) == b"text"


def test_evidence_is_stored_as_long_as_the_lease_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retried_calls, "RETRY_S", 0.0)
    answers = [StoreUnavailable("the database cannot be reached", retry_after_s=1)]

    class Away:
        def put(self, file: BinaryIO) -> Blob:
            if answers:
                raise answers.pop()
            return MemoryStore().blobs.put(file)

    blobs: Any = Away()
    assert RetriedBlobs(blobs, lambda: False).put(BytesIO(b"text")).size == 4


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", " x"])
def test_evidence_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid):
        RunFiles(tmp_path, "r1").keep(name, "x")


@pytest.mark.parametrize("run_id", ["../r", "a/b", ".r"])
def test_a_run_id_stays_inside_the_directory(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(Invalid):
        RunFiles(tmp_path, run_id)


def test_evidence_is_kept_with_kind_size_and_digest(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    source = tmp_path / "shot"
    source.write_bytes(b"png")
    kept = [run.keep("a.log", "text"), run.keep("b.png", source), run.keep("c.json", {"n": 1})]
    assert [(each.file, each.kind, each.size) for each in kept] == [
        ("a.log", "log", 4),
        ("b.png", "screenshot", 3),
        ("c.json", "artifact", 11),
    ]
    digest = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
    assert kept[0].sha256 == digest
    assert kept[1].media_type == "image/png"


def test_evidence_over_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MAX_EVIDENCE_BYTES", 10)
    run = RunFiles(tmp_path, "r1")
    large = tmp_path / "large"
    large.write_bytes(b"x" * 11)
    for content in (b"x" * 11, large):
        with pytest.raises(TooLarge):
            run.keep("a.txt", content)


def test_only_plain_files_of_their_own_are_collected(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    evidence = run.directory("evidence")
    (evidence / "good.txt").write_text("good")
    (evidence / "deep").mkdir()
    (evidence / "deep" / "QA-DECISION.md").write_text("pass")
    outside = tmp_path / "secret"
    outside.write_text("secret")
    (evidence / "symlink.txt").symlink_to(outside)
    os.link(outside, evidence / "hardlink.txt")
    os.mkfifo(evidence / "pipe")
    (evidence / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    assert [(each.file, each.kind) for each in run.collect()] == [
        ("deep/QA-DECISION.md", "qa_report"),
        ("good.txt", "unknown"),
    ]


def test_a_result_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    run = RunFiles(tmp_path, "r1")
    assert run.result() is None
    (tmp_path / "outside").write_text('{"a": 1}')
    (run.directory() / "result.json").symlink_to(tmp_path / "outside")
    assert run.result() is None
    assert b"[the result is left out: result.json cannot be opened" in run.output()


def test_evidence_is_not_kept_through_a_link(tmp_path: Path) -> None:
    run = RunFiles(tmp_path / "runs", "r1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (run.directory() / "evidence").symlink_to(outside)
    with pytest.raises(Invalid, match="evidence cannot be opened"):
        run.keep("question.json", "mine")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("how", ["symlink", "hardlink", "fifo"])
def test_what_is_in_the_place_of_our_own_files_is_removed_and_not_opened(
    tmp_path: Path, how: str
) -> None:
    run = RunFiles(tmp_path / "runs", "r1")
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    make: dict[str, Callable[[Path, Path], None]] = {
        "symlink": os.symlink,
        "hardlink": os.link,
        "fifo": lambda _, place: os.mkfifo(place),
    }
    places = [run.directory() / "prompt.md"]
    places += [run.directory("evidence") / name for name in (".a.log.part", "a.log")]
    for place in places:
        make[how](outside, place)
    run.put("prompt.md", "ours")
    kept = run.keep("a.log", "ours")
    assert (kept.size, outside.read_text()) == (4, "theirs")
    assert [each.read_text() for each in (places[0], places[2])] == ["ours", "ours"]


def test_a_result_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_values", set())
    monkeypatch.setattr(redaction, "_pattern", redaction.SECRET_FORM)
    redaction.remember(["hunter2-and-more"])
    run = RunFiles(tmp_path, "r1")
    found = {"key": ["it is hunter2-and-more", 5], "hunter2-and-more": None}
    (run.directory() / "result.json").write_text(json.dumps(found))
    assert run.result() == {"key": ["it is [secret]", 5], "[secret]": None}
