"""What the worker, the driver process and the cluster send each other. Plain values only.

A submission is the Ray task of one run. Its key is the same for every run that may continue it;
the fence says which of them holds it.
"""

from typing import Any, Literal, NamedTuple


class TaskSpec(NamedTuple):
    """What a node needs to execute a run."""

    key: str
    #: `module:name` of the function.
    function: str
    run_id: str
    job_id: str
    task_id: str | None
    project: str
    attempt: int
    fence: int
    payload: Any
    results: dict[str, Any]
    #: The number of bytes of output that are sent; the rest is discarded on the node.
    max_output: int


class Submit(NamedTuple):
    """Start a task, or continue to follow it if the key is known already."""

    number: int
    spec: TaskSpec
    #: Options of the Ray task, and the amounts of resources by the names that nodes use.
    options: dict[str, Any]
    amounts: dict[str, float]


class Attach(NamedTuple):
    """Follow a submission again after the connection was lost; it is not started again."""

    number: int
    key: str
    fence: int


class Cancel(NamedTuple):
    """End the task of a submission."""

    number: int
    key: str
    fence: int


class Leave(NamedTuple):
    """Follow a submission no longer. Its task goes on, for another run to follow it."""

    number: int
    key: str
    fence: int


Request = Submit | Attach | Cancel | Leave


class Answer(NamedTuple):
    """The answer to a request: `followed`, `stale` or `unknown`; or an error that Ray raised."""

    number: int
    value: str
    error: str = ""


FOLLOWED, STALE, UNKNOWN = "followed", "stale", "unknown"


class Ended(NamedTuple):
    """How a task ended."""

    how: Literal["completed", "failed", "lost", "cancelled"]
    result: Any = None
    error_class: str = ""
    error: str = ""
    exit_code: int | None = None
    reset_at: int | None = None


class News(NamedTuple):
    """What has happened to a submission since the last news."""

    key: str
    fence: int
    output: tuple[bytes, ...] = ()
    #: The output is over its limit: the node discards what follows it.
    output_cut: bool = False
    ended: Ended | None = None
    #: A reference to the evidence in Ray's object store; the driver process replaces it.
    evidence: Any = None
    #: A node has begun to execute it.
    started: bool = False
    #: Another run follows the submission now.
    stale: bool = False


class Note(NamedTuple):
    """Why a submission does not run yet."""

    key: str
    text: str


class Down(NamedTuple):
    """The cluster cannot be used; the driver process ends."""

    reason: str
    advice: str = "Start the cluster, or correct ray.address"


class Up(NamedTuple):
    """The driver process is connected to the cluster."""

    ray: str
