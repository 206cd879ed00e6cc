"""A task as one archive: it says all, is checked offline, and comes in whole or not at all."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.engine import Engine
from detent.errors import NotFound, Refused, TooLarge
from detent.integrity import hash_chain
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.kernel.commands import lifecycle_commands as lc
from detent.operations.run_output import append_output, read_bytes
from detent.store.port import Store
from detent.store.store_url import open_store
from detent.testing.audit import audit, picture
from detent.testing.clock import START, VirtualClock
from detent.testing.conformance.lifecycles import document
from detent.transfer import archive as archives
from detent.transfer.archive import Archive
from detent.transfer.exporter import export_task
from detent.transfer.importer import import_archive
from tests.store.exporting import DAY_US, PERSON, Source, file, source, take

__all__ = ["file", "source"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": "memory:", "sqlite": str(tmp_path / "target" / "detent.db")}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    store = open_store(url, VirtualClock(START + DAY_US))
    yield store
    audit(store)
    store.close()


def history(store: Store, streams: Any) -> list[tuple[Any, ...]]:
    """What the log says of some streams, without positions and without the mark of an import."""
    with store.read() as view:
        events = view.events(0, 100_000)
    return [each[1:10] for each in events if each.stream in streams and "import" not in each.name]


# ---- there and back ------------------------------------------------------------------------


def test_a_task_moves_with_all_that_it_has(
    source: Source, file: Path, target: Store, tmp_path: Path
) -> None:
    with Archive(file) as archive:
        assert archive.flaws() == []
        streams = archive.manifest.streams
    assert source.other not in streams
    submitted = c.SubmitTask("here", "p", "board", "x", "cli")
    Engine(target).do(submitted, PERSON)
    made = take(target, file, tmp_path / "target")
    assert (made.task, made.tasks, made.jobs) == (source.task, 3, 3)
    assert history(target, streams) == history(source.store, streams)
    with source.store.read() as old, target.read() as new:
        assert sorted(task for task, _ in new.tasks(streams)) == sorted(
            task for task, _ in old.tasks(streams)
        )
        assert sorted(job for job, _ in new.jobs(streams)) == sorted(
            job for job, _ in old.jobs(streams)
        )
        mark = new.events(0, 100_000, stream=source.task)[-1]
    assert (mark.name, mark.actor) == ("task_imported", PERSON.name)
    assert json.loads(mark.data)["manifest"] == made.manifest
    for name in zipfile.ZipFile(file).namelist():
        if name.startswith("evidence/"):
            assert target.blobs.size(name.partition("/")[2]) is not None
    run_id = f"{source.task}-j1-r1"
    text = read_bytes(target, tmp_path / "target", run_id, 0, 1_000).decode()
    assert text.startswith("grüße\n")
    assert verify(target).clean


def test_what_came_in_goes_on(source: Source, target: Store, tmp_path: Path) -> None:
    """An imported task is a task: it can be deleted, and exported once more."""
    source.export(tmp_path / "first.zip")
    take(target, tmp_path / "first.zip", tmp_path / "target")
    again = export_task(
        target,
        source.task,
        tmp_path / "again.zip",
        lambda *at: read_bytes(target, tmp_path / "target", *at),
    )
    with Archive(tmp_path / "again.zip") as archive:
        assert archive.flaws() == []
        assert archive.manifest.output  # also what a run wrote came along
    assert again.events == sum(archive.manifest.streams.values())
    Engine(target).do(c.DeleteTask(source.task), PERSON)
    with pytest.raises(Refused, match="Its id cannot be used again"):
        take(target, tmp_path / "first.zip", tmp_path / "target")


def test_a_second_import_is_refused_and_changes_nothing(
    file: Path, target: Store, tmp_path: Path
) -> None:
    take(target, file, tmp_path / "target")
    before = picture(target)
    with pytest.raises(Refused) as refused:
        take(target, file, tmp_path / "target")
    assert refused.value.code == "task_exists"
    assert picture(target) == before


def test_an_import_that_was_interrupted_can_be_repeated(
    source: Source, file: Path, target: Store, tmp_path: Path
) -> None:
    def fail(run_id: str, offset: int, data: bytes) -> None:
        append_output(target, tmp_path / "target", run_id, offset, data[:1])
        raise OSError("no space left")

    before = picture(target)
    with pytest.raises(OSError, match="no space left"):
        import_archive(Engine(target), file, PERSON, fail)
    assert picture(target) == before
    take(target, file, tmp_path / "target")
    with Archive(file) as archive:
        for run_id, digest in archive.manifest.output.items():
            found = read_bytes(target, tmp_path / "target", run_id, 0, 1_000)
            assert found == b"".join(archive.read(f"output/{digest}"))


def test_the_manifest_names_the_chain_of_the_log(source: Source, file: Path) -> None:
    with Archive(file) as archive, source.store.read() as view:
        chain = archive.manifest.chain
        assert hash_chain.compare(view, hash_chain.Anchor(chain.position, chain.value)) == []
        assert chain.position == view.head()


def test_the_same_task_makes_the_same_archive(source: Source, file: Path, tmp_path: Path) -> None:
    source.export(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == file.read_bytes()
    with pytest.raises(Refused, match="already exists"):
        source.export(tmp_path / "again.zip")


def test_a_subtask_is_exported_with_its_whole_tree(source: Source, tmp_path: Path) -> None:
    with source.store.read() as view:
        child = next(child for _, child in view.children([source.task]))
    assert source.export(tmp_path / "of-child.zip", child).task == source.task
    with pytest.raises(NotFound):
        source.export(tmp_path / "missing.zip", "missing")
    assert not (tmp_path / "missing.zip").exists()


def test_evidence_that_is_gone_is_named(source: Source, tmp_path: Path) -> None:
    blobs = source.store.blobs
    gone = {blob.sha256 for blob in blobs.remove(blobs.old(1 << 62, "", 100), 1 << 62)}
    made = source.export(tmp_path / "less.zip")
    assert made.missing == 3
    with Archive(tmp_path / "less.zip") as archive:
        assert archive.flaws() == []
        assert set(archive.manifest.missing) < gone


def test_work_that_is_not_over_stays_where_it_is(
    source: Source, target: Store, tmp_path: Path
) -> None:
    source.engine.do(c.SubmitTask("live", "p", "board", "x", "cli", queue=True), PERSON)
    source.export(tmp_path / "live.zip", "live")
    with Archive(tmp_path / "live.zip") as archive:
        assert archive.flaws() == []
    with pytest.raises(Refused, match="would be executed twice"):
        take(target, tmp_path / "live.zip", tmp_path / "target")


def test_tasks_with_an_installed_lifecycle_are_checked_and_counted(
    source: Source, target: Store, tmp_path: Path
) -> None:
    for engine in (source.engine, Engine(target)):
        engine.do(lc.InstallLifecycle(document()), PERSON)
    source.engine.do(c.SubmitTask("idea", "p", "signed_work", "x", "cli"), PERSON)
    on = ("idea",)
    source.engine.do(c.SubmitTask("next", "p", "signed_work", "x", "cli", depends_on=on), PERSON)
    source.export(tmp_path / "next.zip", "next")
    with pytest.raises(Refused, match="next depends on idea, which is not in the archive"):
        take(target, tmp_path / "next.zip", tmp_path / "target")
    source.export(tmp_path / "idea.zip", "idea")
    assert take(target, tmp_path / "idea.zip", tmp_path / "target").tasks == 1


def test_a_history_from_the_future_is_refused(file: Path, tmp_path: Path) -> None:
    store = open_store("memory:", VirtualClock(START - DAY_US))
    with pytest.raises(Refused, match="in the future"):
        take(store, file, tmp_path)


def test_an_archive_has_a_limit(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1_000)
    with pytest.raises(TooLarge):
        source.export(tmp_path / "large.zip")
    assert list(tmp_path.glob("*.zip")) == []
