"""Graphs of LangGraph in handlers: kills, questions, threads, mistakes."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

from detent import App, AsyncRun, Run
from detent.app.handle import Handle
from detent.integrations.langgraph import DetentSaver, arun_graph, run_graph
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


def test_each_call_of_a_handler_has_its_own_thread() -> None:
    app = App()
    graph, noted = counted(app), []

    @app.intent("count")
    def count(run: Run) -> list[int]:
        totals = [run_graph(run, graph, {"count": each})["count"] for each in (4, 20, 6)]
        noted.append(totals)
        run.sleep(60)
        return totals

    harness = Harness(app)
    handle = harness.submit("count")
    harness.drain()
    handle.answer(5)
    harness.drain(advance=True)
    assert done(handle) == [5, 25, 7]
    assert noted == [[5, 25, 7]] * 2


def test_calls_at_the_same_time_have_their_own_threads() -> None:
    app = App()
    graph = counted(app)

    @app.intent("count")
    async def count(run: AsyncRun) -> list[int]:
        calls = [arun_graph(run, graph, {"count": each}) for each in (4, 6)]
        states = await asyncio.gather(*calls)
        await run.sleep(60)
        return [each["count"] for each in states]

    harness = Harness(app)
    handle = harness.submit("count")
    harness.drain(advance=True)
    assert done(handle) == [5, 7]


def on_shared_thread(app: App) -> Harness:
    """The intent `count` runs its graph on a thread that all its jobs use, and waits afterwards."""
    graph = counted(app)

    @app.intent("count")
    def count(run: Run, start: int) -> int:
        config: Any = {"configurable": {"thread_id": "shared"}}
        total: int = run_graph(run, graph, {"count": start}, config)["count"]
        run.wait_for("finish", name=f"wait-{start}")
        return total

    return Harness(app)


def test_a_replay_returns_what_the_call_returned_although_others_used_the_thread() -> None:
    harness = on_shared_thread(App())
    first = harness.submit("count", {"start": 1})
    harness.drain()
    second = harness.submit("count", {"start": 5})
    harness.drain()
    for handle in (first, second):
        handle.signal("finish")
    harness.drain()
    assert (done(first), done(second)) == (2, 6)


def test_a_thread_whose_graph_waits_for_an_answer_is_not_given_to_another_job() -> None:
    harness = on_shared_thread(App())
    first = harness.submit("count", {"start": 10})
    harness.drain()
    second = harness.submit("count", {"start": 1})
    harness.drain()
    assert second.state() == "retrying"
    with harness.store.read() as view:
        (run,) = view.runs([second.job().run_id or ""])
    assert f"the thread 'shared' is used by job {first.job_id}" in str(run.error)
    first.answer(5)
    harness.drain(advance=True)
    for handle in (first, second):
        handle.signal("finish")
    harness.drain()
    assert (done(first), done(second)) == (15, 2)


def test_the_thread_of_a_cancelled_job_is_free() -> None:
    harness = on_shared_thread(App())
    first = harness.submit("count", {"start": 10})
    harness.drain()
    first.cancel()
    second = harness.submit("count", {"start": 1})
    harness.drain()
    second.signal("finish")
    harness.drain()
    assert done(second) == 2


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


class Text(TypedDict, total=False):
    text: str


def ending_with(app: App, name: str, kind: str) -> Any:
    """A graph whose last node has that name and asks; `kind` says what leads to it."""
    builder: Any = StateGraph(Text)

    def first(_: Text) -> Text:
        return {"text": "draft"}

    def last(state: Text) -> Text:
        return {"text": f"{state['text']}, {interrupt('Publish?')}"}

    builder.add_node("first", first)
    builder.add_node("second", lambda _: {})
    builder.add_node(name, last, defer=kind == "deferred join")
    builder.add_edge(START, "first")
    if kind == "edge":
        builder.add_edge("first", name)
    elif kind == "send":
        builder.add_conditional_edges("first", lambda state: [Send(name, state)], [name])
    elif kind == "subgraph":
        builder.add_edge("first", name)
        outer: Any = StateGraph(Text)
        outer.add_node("inner", builder.compile())
        outer.add_edge(START, "inner")
        return outer.compile(checkpointer=DetentSaver(app))
    else:
        builder.add_edge(START, "second")
        builder.add_edge(["first", "second"], name)
    builder.add_edge(name, END)
    return builder.compile(checkpointer=DetentSaver(app))


@pytest.mark.parametrize("kind", ["edge", "send", "join", "deferred join", "subgraph"])
@pytest.mark.parametrize("changed", ["while it waits", "after its end", "never"])
def test_a_node_that_should_run_next_and_is_missing_is_an_error(kind: str, changed: str) -> None:
    app = App()
    graphs = [ending_with(app, "publish", kind)]

    @app.intent("work")
    def work(run: Run) -> str:
        text: str = run_graph(run, graphs[-1], {})["text"]
        run.sleep(60)
        return text

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain()
    if changed == "while it waits":
        graphs.append(ending_with(app, "release", kind))
    handle.answer("yes")
    harness.drain()
    if changed == "after its end":
        graphs.append(ending_with(app, "release", kind))
    harness.drain(advance=True)
    if changed == "while it waits":
        assert "should continue with publish, which the present graph does not" in error_of(handle)
        assert handle.job().error_class == "error"
    else:
        assert done(handle) == "draft, yes"


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
