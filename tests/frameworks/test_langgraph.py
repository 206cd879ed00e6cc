"""Graphs of LangGraph in handlers: kills, questions, threads, mistakes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from detent import App, Run
from detent.app.handle import Handle
from detent.integrations.langgraph import DetentSaver, run_graph
from detent.testing import Harness
from tests.frameworks import langgraph_report as scene
from tests.frameworks.kills import check, kill_everywhere
from tests.worker.waiting import done, error_of, installation, until, working


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Path]:
    scene.calls_file = tmp_path / "calls"
    yield scene.calls_file
    scene.calls_file = Path("calls")


def questions(harness: Harness, handle: Handle[Any]) -> list[tuple[str, list[Any]]]:
    with harness.store.read() as view:
        waits = view.waits([handle.job_id])
        return [(wait.detail["text"], wait.detail["options"]) for wait in waits]


def asked(handle: Handle[Any]) -> bool:
    return handle.state() == "parked"


def test_a_kill_at_any_write_repeats_at_most_one_node(tmp_path: Path) -> None:
    found = kill_everywhere(scene.__name__, "report", tmp_path)
    check(found, scene.RESULT, scene.CALLS)


@pytest.mark.parametrize("intent", ["report", "plain-report"])
def test_interrupts_are_questions(calls: Path, intent: str) -> None:
    harness = Harness(scene.app)
    handle = harness.submit(intent, scene.PAYLOAD)
    harness.drain()
    assert questions(harness, handle) == [("Is the draft good?", [])]
    handle.answer("fine")
    harness.drain()
    assert questions(harness, handle) == [("And the title?", ["good", "bad"])]
    handle.answer("bad")
    harness.drain()
    assert done(handle) == "tides: draft, fine, bad, published"
    assert calls.read_text().split() == list(scene.CALLS)
    assert "run_progressed" not in harness.events(handle.job_id)  # no warning about names


def test_a_real_worker_runs_graphs(tmp_path: Path, calls: Path) -> None:
    with installation(tmp_path / "data", worker_poll_ms=20) as core:
        app = scene.app.bind(core)
        with working(core, app, concurrency=2):
            handles = [app.submit(each, scene.PAYLOAD) for each in ("report", "plain-report")]
            for handle in handles * 2:
                until(partial(asked, handle), "it asks")
                handle.answer("good")
            assert [each.result(timeout=60) for each in handles] == [scene.RESULT] * 2


class Count(TypedDict):
    count: int


def counted(app: App) -> Any:
    """A graph that adds one to its count; with 10 or more it asks what to add."""
    builder: Any = StateGraph(Count)

    def add(state: Count) -> Count:
        more = interrupt({"add": ["one", "two"]}) if state["count"] >= 10 else 1
        return {"count": state["count"] + more}

    builder.add_node("add", add)
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    return builder.compile(checkpointer=DetentSaver(app))


def test_a_thread_can_belong_to_several_jobs() -> None:
    app = App()
    graph = counted(app)

    @app.intent("count")
    def count(run: Run, start: int | None = None) -> int:
        config: Any = {"configurable": {"thread_id": "shared"}}
        before = graph.get_state(config).values
        given = {"count": before["count"]} if start is None else {"count": start}
        total: int = run_graph(run, graph, given, config)["count"]
        run.sleep(60)  # the job runs again, and must not add again
        return total

    harness = Harness(app)
    first = harness.submit("count", {"start": 4})
    harness.drain(advance=True)
    second = harness.submit("count")
    harness.drain(advance=True)
    assert (done(first), done(second)) == (5, 6)


def test_any_value_of_an_interrupt_is_shown() -> None:
    app = App()
    graph = counted(app)

    @app.intent("count")
    def count(run: Run) -> int:
        total: int = run_graph(run, graph, {"count": 10})["count"]
        return total

    harness = Harness(app)
    handle = harness.submit("count")
    harness.drain()
    assert questions(harness, handle) == [('{"add": ["one", "two"]}', [])]
    handle.answer(5)
    harness.drain()
    assert done(handle) == 15


def test_a_graph_with_another_checkpointer_is_refused() -> None:
    app = App()
    graph = scene.builder.compile(checkpointer=InMemorySaver())

    @app.intent("work", retry={"retries": 0})
    def work(run: Run) -> dict[str, Any]:
        return run_graph(run, graph, {"text": "a"})

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain()
    assert "Compile it with checkpointer=DetentSaver(app)" in error_of(handle)
