"""Types of costs of runs, tasks and task trees, in dollars and tokens."""

from typing_extensions import TypedDict


class Spending(TypedDict):
    """The total cost of some runs."""

    runs: int
    cost: float
    tokens_in: int
    tokens_out: int


class Usage(TypedDict):
    """The cost of the task's own runs and of its tree; `warned`: most of its budget is spent."""

    own: Spending
    tree: Spending
    warned: bool


class Elsewhere(TypedDict):
    """The state of the task in the other lifecycle, as an MCP task and as an A2A task."""

    other: str | None
    mcp: str
    a2a: str


class TaskCost(TypedDict):
    """A task of the tree with the cost of the task and everything below it."""

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
    outcome: str | None
    started_at: str | None
    ended_at: str | None
    cost: float
    tokens_in: int
    tokens_out: int


class Costs(TypedDict):
    """`left` is the smallest remaining budget of the task and its ancestors; null: no limit."""

    id: str
    budget: float | None
    left: float | None
    warned: bool
    own: Spending
    tree: Spending
    tasks: list[TaskCost]
    runs: list[RunCost]
