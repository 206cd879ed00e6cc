"""LangGraph: graphs in handlers continue from their last checkpoint; interrupts are questions.

`run_graph` and `arun_graph` run a graph until its end. The graph is compiled with a `DetentSaver`,
which stores its checkpoints.
"""

import json
from collections.abc import Mapping
from typing import Any

from detent.app.async_run_context import AsyncRun
from detent.app.run_context import Run
from detent.app.run_info import names_are_optional
from detent.errors import Invalid
from detent.integrations.frameworks.graph_call import Graph, GraphCall
from detent.integrations.frameworks.graph_saver import DetentSaver, fenced_by
from detent.optional_package import optional_package

with optional_package("langgraph", "1.2.22", extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Command, Interrupt

__all__ = ["DetentSaver", "arun_graph", "run_graph"]

#: The prefix of the names of questions.
QUESTION = "interrupt:"


def run_graph(
    run: Run, graph: Graph, given: Any, config: RunnableConfig | None = None
) -> dict[str, Any]:
    """Run a graph until its end and return its state.

    The thread is that of `config`; by default each call has a thread of its own, which is deleted
    with the job.
    """
    saver, call = _saver(graph), _call(run, config)
    with fenced_by(run):
        state = graph.get_state(call.config)
        if (earlier := call.earlier_checkpoint(saver, state)) is not None:
            return call.values(graph.get_state(earlier))
        command = call.begin(graph, saver, state, given)
        # Not `state.next`, which lacks tasks that have stored their writes before a crash.
        while command is not None or state.tasks:
            if command is None and state.interrupts:
                answers = {
                    each.id: run.ask(**_question(saver, call, each)) for each in state.interrupts
                }
                command = Command(resume=answers)
            graph.invoke(command, call.config, durability="sync")
            state, command = graph.get_state(call.config), None
    return dict(state.values)


async def arun_graph(
    run: AsyncRun, graph: Graph, given: Any, config: RunnableConfig | None = None
) -> dict[str, Any]:
    """As `run_graph`, for coroutines."""
    saver, call = _saver(graph), _call(run, config)
    with fenced_by(run):
        state = await graph.aget_state(call.config)
        if (earlier := call.earlier_checkpoint(saver, state)) is not None:
            return call.values(await graph.aget_state(earlier))
        command = call.begin(graph, saver, state, given)
        while command is not None or state.tasks:
            if command is None and state.interrupts:
                answers = {
                    each.id: await run.ask(**_question(saver, call, each))
                    for each in state.interrupts
                }
                command = Command(resume=answers)
            await graph.ainvoke(command, call.config, durability="sync")
            state, command = await graph.aget_state(call.config), None
    return dict(state.values)


def _call(run: Run | AsyncRun, config: RunnableConfig | None) -> GraphCall:
    names_are_optional(run, QUESTION)  # the graph keeps the answers that it has consumed
    return GraphCall(run, config or {})


def _saver(graph: Graph) -> DetentSaver:
    if isinstance(graph.checkpointer, DetentSaver):
        return graph.checkpointer
    raise Invalid(
        "the graph has no DetentSaver, so its state would not survive a crash. Compile it with "
        "checkpointer=DetentSaver(app).",
        field="checkpointer",
        given=type(graph.checkpointer).__name__,
    )


def _question(saver: DetentSaver, call: GraphCall, interrupt: Interrupt) -> dict[str, Any]:
    """The arguments of `run.ask` for an interrupt.

    Interrupts of one node have the same id; the number of answers before it makes its name unique.
    """
    consumed = saver.resumptions(call.thread)
    name, value = f"{QUESTION}{interrupt.id}#{consumed + 1}", interrupt.value
    if isinstance(value, Mapping) and isinstance(value.get("question"), str):
        return {"question": value["question"], "choices": value.get("choices", ()), "name": name}
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return {"question": text, "name": name}
