"""The shapes of money: what runs, tasks and trees have cost. Types only; dollars and tokens."""

from typing_extensions import TypedDict


class Spending(TypedDict):
    """What some runs have cost together."""

    runs: int
    cost: float
    tokens_in: int
    tokens_out: int


class Usage(TypedDict):
    """Of the task's own runs, and of its whole tree; `warned`: most of its budget is spent."""

    own: Spending
    tree: Spending
    warned: bool


class Elsewhere(TypedDict):
    """How the task looks on the other lifecycle's board, as an MCP task and as an A2A task."""

    other: str
    mcp: str
    a2a: str


class TaskCost(TypedDict):
    """A task of the tree with what it and everything below it has cost."""

    id: str
    parent_id: str | None
    intent: str
    state: str
    budget: float | None
    runs: int
    cost: float
    tokens_in: int
    tokens_out: int


class RunCost(TypedDict):
    id: str
    job_id: str
    state: str
    started_at: str | None
    ended_at: str | None
    cost: float
    tokens_in: int
    tokens_out: int


class Costs(TypedDict):
    """`left` is the least that the task or a task above it has left; null: no limit."""

    id: str
    budget: float | None
    left: float | None
    warned: bool
    own: Spending
    tree: Spending
    tasks: list[TaskCost]
    runs: list[RunCost]
