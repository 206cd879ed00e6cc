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


class Output(TypedDict):
    """A part of the output of a run; `offset` is where the next part begins."""

    run_id: str | None
    text: str
    offset: int
    ended: bool


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


class Snoozed(TypedDict):
    """A task, and when it comes back to the caller's inbox; null if it is not snoozed."""

    id: str
    snoozed_until: str | None


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


class JobPage(TypedDict):
    items: list[Job]
    cursor: str | None


class RunPage(TypedDict):
    """A page of runs. It may have fewer rows than `limit`; `cursor` is null on the last page."""

    items: list[Run]
    cursor: str | None


class Tasks(TypedDict):
    items: list[Task]


class JobQuestion(TypedDict):
    """An open question of a job without a task; `answer_job` takes its `name` as `question`."""

    job_id: str
    name: str
    kind: str
    begun_at: str
    step: str | None
    due_at: str | None
    detail: dict[str, Any]
    project: str
    intent: str
    priority: str
    state: str


class RefusedRow(TypedDict):
    """A refused submission from the table `intake`, with the reason."""

    id: str
    operation: str
    project: str
    intent: str
    #: The inserted body, as text.
    body: str
    idempotency_key: str | None
    refused_at: str
    code: str
    field: str | None
    detail: str


class RefusedRows(TypedDict):
    items: list[RefusedRow]


class Suggestion(TypedDict):
    """A legal action, the task that it applies to, and the command for it."""

    action: str
    id: str
    command: str


class InboxTask(Task):
    """A task that waits for a person, with the legal actions."""

    #: What it needs: question, confirmation, review, budget, failure, quarantine or subtask.
    kind: str
    #: When it comes back to the caller's inbox, if the caller has snoozed it.
    snoozed_until: str | None
    actions: list[Suggestion]
    #: The events of its lifecycle that the caller may send now.
    events: list[str]


class Inbox(TypedDict):
    """Tasks that wait for a person, questions of jobs without a task, and refused submissions; in
    each list, the highest priority is first, then the oldest."""

    #: How many items match; the lists have the most urgent ones. Snoozed items are not counted.
    count: int
    #: How many of the matching items the caller has snoozed.
    snoozed: int
    items: list[InboxTask]
    questions: list[JobQuestion]
    refused: list[RefusedRow]


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


class Reason(TypedDict):
    """One reason why a task or job is not running, and when detent checks it again."""

    reason: str
    cleared_by: str
    how: str
    looks_again: str
    looks_again_at: str | None
    detail: dict[str, Any]
    actions: list[Suggestion]


class Why(TypedDict):
    """The reasons why a task or job is not running, and the legal actions."""

    id: str
    state: str
    since: str
    reasons: list[Reason]
    actions: list[str]
    #: The events of the task's lifecycle that the caller may send now.
    events: list[str]
