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
from detent.integrations.frameworks.graph_saver import DetentSaver, fenced_by
from detent.optional_package import optional_package

with optional_package("langgraph", "1.2.22", extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import Command, Interrupt, StateSnapshot

__all__ = ["DetentSaver", "arun_graph", "run_graph"]

Graph = Pregel[Any, Any, Any, Any]
#: The key of the metadata of a checkpoint with the job that ran the graph.
JOB = "detent_job"
#: The prefix of the names of questions.
QUESTION = "interrupt:"


def run_graph(
    run: Run, graph: Graph, given: Any, config: RunnableConfig | None = None
) -> dict[str, Any]:
    """Run a graph until its end and return its state.

    The thread is that of `config`; by default the job has a thread of its own, which is deleted
    with the job.
    """
    named = _config(run, config)
    saver = _saver(graph)
    with fenced_by(run):
        state = graph.get_state(named)
        command = None if _is_begun(run, state) else given
        # Not `state.next`, which lacks tasks that have stored their writes before a crash.
        while command is not None or state.tasks:
            if command is None and state.interrupts:
                answers = {
                    each.id: run.ask(**_question(saver, named, each)) for each in state.interrupts
                }
                command = Command(resume=answers)
            graph.invoke(command, named, durability="sync")
            state, command = graph.get_state(named), None
    return dict(state.values)


async def arun_graph(
    run: AsyncRun, graph: Graph, given: Any, config: RunnableConfig | None = None
) -> dict[str, Any]:
    """As `run_graph`, for coroutines."""
    named = _config(run, config)
    saver = _saver(graph)
    with fenced_by(run):
        state = await graph.aget_state(named)
        command = None if _is_begun(run, state) else given
        while command is not None or state.tasks:
            if command is None and state.interrupts:
                answers = {
                    each.id: await run.ask(**_question(saver, named, each))
                    for each in state.interrupts
                }
                command = Command(resume=answers)
            await graph.ainvoke(command, named, durability="sync")
            state, command = await graph.aget_state(named), None
    return dict(state.values)


def _config(run: Run | AsyncRun, config: RunnableConfig | None) -> RunnableConfig:
    """The configuration, with a thread and with the job in the metadata of checkpoints."""
    names_are_optional(run, QUESTION)  # the graph keeps the answers that it has consumed
    given: RunnableConfig = config or {}
    return {
        **given,
        "configurable": {"thread_id": run.job_id, **given.get("configurable", {})},
        "metadata": {**given.get("metadata", {}), JOB: run.job_id},
    }


def _saver(graph: Graph) -> DetentSaver:
    if isinstance(graph.checkpointer, DetentSaver):
        return graph.checkpointer
    raise Invalid(
        "the graph has no DetentSaver, so its state would not survive a crash. Compile it with "
        "checkpointer=DetentSaver(app).",
        field="checkpointer",
        given=type(graph.checkpointer).__name__,
    )


def _is_begun(run: Run | AsyncRun, state: StateSnapshot) -> bool:
    """Whether the last checkpoint of the thread was made for this job."""
    metadata: Mapping[str, Any] = state.metadata or {}
    return metadata.get(JOB) == run.job_id


def _question(saver: DetentSaver, config: RunnableConfig, interrupt: Interrupt) -> dict[str, Any]:
    """The arguments of `run.ask` for an interrupt.

    Interrupts of one node have the same id; the number of answers before it makes its name unique.
    """
    consumed = saver.resumptions(str(config["configurable"]["thread_id"]))
    name, value = f"{QUESTION}{interrupt.id}#{consumed + 1}", interrupt.value
    if isinstance(value, Mapping) and isinstance(value.get("question"), str):
        return {"question": value["question"], "choices": value.get("choices", ()), "name": name}
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return {"question": text, "name": name}
