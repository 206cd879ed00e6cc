"""Types of tasks, jobs, runs and events, and of the responses to actions on them."""

from typing import Any, Literal

from typing_extensions import TypedDict

from detent.operations.schemas.costs_schema import Elsewhere, Usage

# ---- tasks and jobs --------------------------------------------------------------------------


class Acceptance(TypedDict):
    """An acceptance with an action (merge, push), which the job carries out before it counts."""

    action: str
    #: Who accepted the task.
    by: str
    job_id: str
    #: The state of the job.
    state: str
    #: Why the action was not carried out.
    problem: str | None
    #: The branch that the action changed, and the commit that it made or pushed.
    branch: str | None
    commit: str | None


class Task(TypedDict):
    """A task with its payload and state."""

    id: str
    project: str
    lifecycle: str
    state: str
    #: What the job does in this state: idle (there is none), queued, working or blocked.
    phase: str
    #: How the work ended: done, failed or cancelled; null while it is live.
    ending: str | None
    waits_for_person: bool
    #: The person who is to deal with it.
    assigned_to: str | None
    state_at: str
    intent: str
    source: str
    priority: str
    title: str
    payload: Any
    tags: list[str]
    root_id: str
    parent_id: str | None
    depth: int
    jobs: int
    job_id: str | None
    depends_on: list[str]
    open_dependencies: int
    failed_dependency: str | None
    open_subtasks: int
    subtasks: int
    failed_subtask: str | None
    #: Subtasks, at any depth, that the task no longer waits for although they were not completed.
    settled: list[str]
    blocked_by: str | None
    blocked_detail: dict[str, Any]
    retries_left: int | None
    answered: dict[str, Any] | None
    #: How often changes were requested: 0 in the first round.
    rounds: int
    comment: str | None
    session_id: str | None
    budget: float | None
    spent: float
    cancel_reason: str | None
    #: The failure class of its job, if the task stopped because of it; `lost` is a quarantine.
    error_class: str | None
    #: The acceptance whose action (merge, push) its latest job carries out or has carried out.
    acceptance: Acceptance | None
    options: dict[str, Any]
    created_by: str
    created_at: str
    version: int
    usage: Usage
    elsewhere: Elsewhere


class Job(TypedDict):
    """A job with its result or error."""

    id: str
    project: str
    state: str
    state_at: str
    intent: str
    priority: str
    payload: Any
    root_id: str
    task_id: str | None
    parent_job_id: str | None
    queued_at: str
    not_before: str
    attempt: int
    failures: dict[str, int]
    lost: int
    fence: int
    worker: str | None
    runs: int
    run_id: str | None
    cancel_reason: str | None
    plan_version: int
    replans: int
    concurrency_key: str | None
    queue_deadline: str | None
    job_deadline: str | None
    options: dict[str, Any]
    result: Any
    error_class: str | None
    error: str | None
    created_at: str
    ended_at: str | None
    version: int


class Run(TypedDict):
    """One execution of a job or of a step."""

    id: str
    job_id: str
    state: str
    attempt: int
    fence: int
    worker: str
    queued_at: str
    step: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str | None
    exit_code: int | None
    error_class: str | None
    error: str | None
    session_id: str | None
    cost: float
    tokens_in: int
    tokens_out: int
    progress: float | None
    note: str | None
    reserved: float | None
    reason: str | None


class Step(TypedDict):
    """A step of a plan."""

    job_id: str
    plan_version: int
    name: str
    state: str
    state_at: str
    retries: int
    lost: int
    not_before: str
    run_id: str | None
    resource: str | None
    last_resource: str | None
    held_until: str | None
    avoid: list[str]
    wait: str | None
    reason: str | None
    result: Any
    error_class: str | None
    error: str | None


class Evidence(TypedDict):
    """An evidence file of a run."""

    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str
    at: str


class Event(TypedDict):
    """One event of the log."""

    position: int
    stream: str
    version: int
    name: str
    subject: str | None
    project: str
    at: str
    actor: str
    data: Any


class OutputTime(TypedDict):
    """When the lines of a part of the output were begun, from this line on (counted from 0)."""

    line: int
    at: str


class Output(TypedDict):
    """A part of the output of a run; `offset` is where the next part begins."""

    run_id: str | None
    text: str
    offset: int
    ended: bool
    times: list[OutputTime]


# ---- responses to actions --------------------------------------------------------------------


class Added(TypedDict):
    """A task that was submitted with `POST /add` or `POST /enqueue`."""

    taskId: str
    status: str
    repeated: bool


class Submitted(TypedDict):
    """The id. `repeated`: an earlier submission with this idempotency key created it."""

    id: str
    repeated: bool


class RefusedTask(TypedDict):
    """A task of a list that was refused."""

    index: int
    code: str
    detail: str


class SubmittedMany(TypedDict):
    """The ids of the created tasks, in order, and the refused tasks with their reasons."""

    ids: list[str]
    refused: list[RefusedTask]


class Moved(TypedDict):
    """The state of a task or job after an action."""

    id: str
    state: str
    version: int
    outcome: Any


class Acted(TypedDict):
    """The result of a bulk action on one id; state and version are null if it was deleted."""

    id: str
    state: str | None
    version: int | None
    outcome: Any


class RefusedWork(TypedDict):
    """An id for which a bulk action was refused."""

    id: str
    code: str
    detail: str


class ActedOn(TypedDict):
    """The result of a bulk action: every given id is in `items` or in `refused`."""

    items: list[Acted]
    refused: list[RefusedWork]


class Signalled(TypedDict):
    """`outcome` is `delivered`, `kept` for a wait that has not begun, or `repeated`."""

    id: str
    outcome: str


class Deleted(TypedDict):
    id: str
    outcome: Literal["deleted"]


# ---- pages and lists -------------------------------------------------------------------------


class TaskPage(TypedDict):
    """A page of tasks. `cursor` is null on the last page."""

    items: list[Task]
    cursor: str | None


class ListedJob(Job):
    """A job with the title of its task, which is empty if it has none."""

    title: str


class JobPage(TypedDict):
    items: list[ListedJob]
    cursor: str | None


class ListedRun(Run):
    """A run with its task and the title of the task, which is empty if there is none."""

    task_id: str | None
    title: str


class RunPage(TypedDict):
    """A page of runs. It may have fewer rows than `limit`; `cursor` is null on the last page."""

    items: list[ListedRun]
    cursor: str | None


class Tasks(TypedDict):
    items: list[Task]


class Jobs(TypedDict):
    items: list[Job]


class Runs(TypedDict):
    items: list[Run]


class Steps(TypedDict):
    items: list[Step]


class EvidenceList(TypedDict):
    items: list[Evidence]


class Log(TypedDict):
    """Events in order; `cursor` is the position to continue after."""

    events: list[Event]
    cursor: int
