"""A graph of LangGraph with three nodes, one of which asks two questions."""

from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from detent import App, AsyncRun, Run
from detent.integrations.langgraph import DetentSaver, arun_graph, run_graph

PAYLOAD = {"topic": "tides"}
ANSWER = "good"
RESULT = "tides: draft, good, good, published"
CALLS = ("draft", "review", "publish")
calls_file = Path("calls")


def call(text: str) -> None:
    """Note a call in the file, which outlives the process."""
    with calls_file.open("a") as file:
        file.write(f"{text}\n")


class Report(TypedDict, total=False):
    text: str


def draft(report: Report) -> Report:
    call("draft")
    return {"text": f"{report['text']}: draft"}


def review(report: Report) -> Report:
    first = interrupt("Is the draft good?")
    second = interrupt({"question": "And the title?", "choices": ["good", "bad"]})
    call("review")
    return {"text": f"{report['text']}, {first}, {second}"}


def publish(report: Report) -> Report:
    call("publish")
    return {"text": f"{report['text']}, published"}


app = App()
builder: Any = StateGraph(Report)
for node in (draft, review, publish):
    builder.add_node(node)
builder.add_edge(START, "draft")
builder.add_edge("draft", "review")
builder.add_edge("review", "publish")
builder.add_edge("publish", END)
graph = builder.compile(checkpointer=DetentSaver(app))


@app.intent("report")
async def report(run: AsyncRun, topic: str) -> str:
    state = await arun_graph(run, graph, {"text": topic})
    return str(state["text"])


@app.intent("plain-report")
def plain_report(run: Run, topic: str) -> str:
    return str(run_graph(run, graph, {"text": topic})["text"])
