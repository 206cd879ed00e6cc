"""A store with a task tree that is over, its archive, and what takes it in elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.app.run_context import Run
from detent.engine import Engine
from detent.kernel import commands as c
from detent.operations.run_output import append_output, read_bytes
from detent.store.port import Store
from detent.store.sqlite import SqliteStore
from detent.testing.clock import VirtualClock
from detent.testing.harness import Harness
from detent.transfer.exporter import Exported, export_task
from detent.transfer.importer import Imported, import_archive

PERSON = c.Actor("person:ann")
DAY_US = 86_400_000_000


def made_app() -> App:
    app = App()

    @app.intent("build", retry={"retries": 1})
    def build(run: Run) -> dict[str, int]:
        run.log("grüße")
        run.step("one", lambda: 1)
        parts = [run.subtask("part", {"n": number}, name=f"part-{number}") for number in range(2)]
        found = run.gather(parts)
        run.evidence("report.json", {"found": found})
        if run.attempt == 1:
            raise ConnectionError("once")
        return {"sum": sum(found)}

    @app.intent("part")
    def part(run: Run, n: int) -> int:
        run.evidence("coverage.xml", f"<n>{n}</n>")
        return n

    return app


class Source:
    """A store with a task tree that is over, and something else beside it."""

    def __init__(self, root: Path, store: Store, clock: VirtualClock) -> None:
        self.data = root
        harness = Harness(made_app(), store)
        harness.clock = clock
        harness.runs = root / "runs"
        self.store = store
        self.engine = harness.engine
        self.handle = harness.submit("build", lifecycle="board", title="Build it")
        other = harness.submit("part", {"n": 9}, lifecycle="board")
        harness.drain(advance=True)
        assert self.handle.state() == "done"
        self.task, self.other = str(self.handle.task_id), str(other.task_id)

    def export(self, to: Path, task: str = "") -> Exported:
        return export_task(
            self.store, task or self.task, to, lambda *at: read_bytes(self.store, self.data, *at)
        )


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "source" / "detent.db", clock)
    yield Source(tmp_path / "source", store, clock)
    store.close()


@pytest.fixture
def file(source: Source, tmp_path: Path) -> Path:
    source.export(tmp_path / "task.zip")
    return tmp_path / "task.zip"


def take(store: Store, file: Path, data: Path) -> Imported:
    return import_archive(
        Engine(store), file, PERSON, lambda *piece: append_output(store, data, *piece)
    )
