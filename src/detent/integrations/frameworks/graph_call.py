"""One call of `run_graph` in a handler: its thread, and which checkpoints of the thread it made.

The metadata of each checkpoint names the call. A replay thus finds what the call has done, also if
other calls have used the thread since then.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from detent.app.async_run_context import AsyncRun
from detent.app.failures import CodeChanged, DependencyMissing, Failure
from detent.app.run_context import Run
from detent.integrations.frameworks.graph_saver import DetentSaver
from detent.operations.graph_rows import thread_name
from detent.optional_package import optional_package

with optional_package("langgraph", "1.2.22", extra="langgraph"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.pregel import Pregel
    from langgraph.types import StateSnapshot

Graph = Pregel[Any, Any, Any, Any]
#: The keys of the metadata of a checkpoint: the job that made it, and which call of the handler.
JOB, CALL = "detent_job", "detent_call"
#: The channel with the nodes that `Send` has called.
TASKS = "__pregel_tasks"


class GraphCall:
    """A call of a graph in a handler; calls are numbered in the order in which they begin."""

    def __init__(self, run: Run | AsyncRun, given: RunnableConfig) -> None:
        number = int(run.numbered("graph").rpartition("#")[2])
        named = {"thread_id": thread_name(run.job_id, number), **given.get("configurable", {})}
        self.thread = str(named["thread_id"])
        self._marks = {JOB: run.job_id, CALL: number}
        self.config: RunnableConfig = {
            **given,
            "configurable": named,
            "metadata": {**given.get("metadata", {}), **self._marks},
        }

    def made(self, metadata: Mapping[str, Any] | None) -> bool:
        """Whether this call made the checkpoint with the metadata."""
        return self._marks.items() <= (metadata or {}).items()

    def earlier_checkpoint(self, saver: DetentSaver, last: StateSnapshot) -> RunnableConfig | None:
        """The checkpoint of this call, if others have continued the thread since; else None.

        A new call is refused while an unfinished call of another job has the thread.
        """
        if self.made(last.metadata):
            return None
        of_thread: RunnableConfig = {
            "configurable": {"thread_id": self.thread, "checkpoint_ns": ""}
        }
        own = next(saver.list(of_thread, filter=self._marks, limit=1), None)
        if own is not None:
            return own.config
        other = (last.metadata or {}).get(JOB)
        if last.tasks and other is not None and not saver.has_ended(str(other)):
            raise DependencyMissing(
                f"the thread {self.thread!r} is used by job {other}, whose graph has not ended. "
                "This job is tried again later; use another thread_id if it need not wait."
            )
        return None

    def begin(self, graph: Graph, saver: DetentSaver, state: StateSnapshot, given: Any) -> Any:
        """What the graph starts with: None if it continues.

        LangGraph ignores nodes that should run next and are not in the graph, so that a changed
        graph would end early.
        """
        if not self.made(state.metadata):
            return given
        lost = ", ".join(sorted({*_missing(graph, graph, saver, state)}))
        if lost:
            raise CodeChanged(
                f"the graph of the thread {self.thread!r} should continue with {lost}, which the "
                "present graph does not have. Give the node its earlier name, or submit the task "
                "again."
            )
        return None

    def values(self, state: StateSnapshot) -> dict[str, Any]:
        """The values of the state with which this call has ended."""
        if state.tasks:
            raise Failure(
                f"the thread {self.thread!r} was continued by something else before this graph had "
                "ended. Submit the task again, and use the thread in one task at a time."
            )
        return dict(state.values)


def _missing(whole: Graph, graph: Graph, saver: DetentSaver, state: StateSnapshot) -> Iterator[str]:
    """The nodes that should run next and are not in the graph, or not in one of its subgraphs."""
    saved = saver.get_tuple(state.config)
    due = () if saved is None else _nodes_due(saved.checkpoint["channel_values"])
    yield from (each for each in due if each not in graph.nodes)
    begun = [each for each in state.tasks if isinstance(each.state, Mapping)]
    subgraphs = dict(graph.get_subgraphs()) if begun else {}
    for task in begun:
        if task.name in subgraphs:
            within = whole.get_state(cast(RunnableConfig, task.state))
            yield from _missing(whole, cast(Graph, subgraphs[task.name]), saver, within)


def _nodes_due(channels: Mapping[str, Any]) -> Iterator[str]:
    """The nodes that a checkpoint wants to run, by the names of its channels in LangGraph."""
    for channel, value in channels.items():
        kind, _, rest = channel.partition(":")
        if channel.startswith("branch:to:"):
            yield channel.removeprefix("branch:to:")
        elif channel == TASKS:
            yield from (each.node for each in value)
        elif kind == "join":
            starts, _, end = rest.rpartition(":")
            ended = value if isinstance(value, set) else value[0]  # a pair if the node is deferred
            if set(ended) == set(starts.split("+")):
                yield end
