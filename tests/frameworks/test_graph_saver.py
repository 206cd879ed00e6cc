"""The checkpointer for LangGraph: the conformance suite on all stores, fences, sizes, retention."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from detent import App, Run
from detent.errors import Invalid, Misconfigured, TooLarge
from detent.integrations.frameworks.graph_saver import DetentSaver, fenced_by
from detent.keeper import retention_sweep
from detent.kernel import commands as c
from detent.operations.graph_rows import TABLE
from detent.store.store_url import open_store
from detent.testing import Harness
from tests.worker.waiting import installation


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("empty_postgres_url")
        return found
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/detent.db"


def test_it_passes_the_conformance_suite_with_all_capabilities(tmp_path: Path, url: str) -> None:
    with installation(tmp_path, url) as core:
        app = App().bind(core)

        @checkpointer_test(name=url)
        async def saver() -> AsyncGenerator[DetentSaver, None]:
            yield DetentSaver(app)

        report = asyncio.run(validate(saver))
        assert {each.value for each in ALL_CAPABILITIES} == set(report.results)
        for name, result in report.results.items():
            assert result.passed, (name, result.failures)
            assert result.tests_passed, name


def checkpoint(**values: Any) -> Any:
    versions = dict.fromkeys(values, 1)
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}


def put(saver: DetentSaver, thread: str, **values: Any) -> None:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(config, checkpoint(**values), {}, dict.fromkeys(values, 1))


def stored(harness: Harness) -> set[str]:
    with harness.store.read() as view:
        return set(view.rows(TABLE))


def test_threads_with_any_name_are_kept_apart() -> None:
    harness = Harness(App())
    saver = DetentSaver(harness.app)
    names = ["a", "a/b", "a%2Fb", "ü/", ""]
    for name in names:
        put(saver, name, text=name)
    for name in names:
        found = saver.get_tuple({"configurable": {"thread_id": name}})
        assert found is not None
        assert found.checkpoint["channel_values"] == {"text": name}
    assert len([*saver.list(None)]) == len(names)


def test_what_cannot_be_stored_is_refused_and_nothing_is_written() -> None:
    harness = Harness(App())
    saver = DetentSaver(harness.app)
    with pytest.raises(Invalid, match="a value of type generator cannot be stored"):
        put(saver, "a", text=(each for each in "ab"))
    with pytest.raises(TooLarge, match="Store large data in a file"):
        put(saver, "a", text="x" * (17 * 1_048_576))
    with pytest.raises(Invalid, match="no thread_id"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(Invalid, match="keep_latest or delete"):
        saver.prune(["a"], strategy="half")
    assert stored(harness) == set()


def test_an_app_without_a_store_says_so() -> None:
    with pytest.raises(Misconfigured, match="not connected to a store"):
        put(DetentSaver(App()), "a")


def test_a_run_that_has_lost_its_lease_writes_nothing(url: str) -> None:
    app = App()
    saver = DetentSaver(app)

    @app.intent("work", retry={"retries": 0})
    def work(run: Run) -> None:
        with fenced_by(run):
            put(saver, "mine", text="before")
            harness.engine.do(c.ReclaimJob(run.job_id, run.fence), c.Actor("clock"))
            put(saver, "mine", text="after")

    with closing(open_store(url)) as store:
        harness = Harness(app, store)
        harness.submit("work")
        harness.drain()
        texts = {each.checkpoint["channel_values"]["text"] for each in saver.list(None)}
    assert texts == {"before"}


def test_a_thread_of_a_job_is_deleted_with_the_job() -> None:
    app = App()
    saver = DetentSaver(app)

    @app.intent("work")
    def work(run: Run) -> None:
        with fenced_by(run):
            put(saver, run.job_id, text="own")
            put(saver, f"{run.job_id}/2", text="of the second graph")
            put(saver, "conversation", text="shared")

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain()
    core = app.installation()
    assert retention_sweep.run(core) == 0
    harness.engine.do(c.DeleteJob(handle.job_id, "done"), c.Actor("person"))
    assert retention_sweep.run(core) == 2
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {
        "conversation"
    }
    saver.delete_thread("conversation")
    assert stored(harness) == set()
