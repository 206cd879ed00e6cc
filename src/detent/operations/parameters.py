"""The parameters of operations by name: what each means, an example, and its bounds.

One table for all doors: HTTP documents and enforces them, MCP describes its tools with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.priority import ALIASES, Priority
from detent.operations.bulk import MAX_TOGETHER
from detent.operations.cursor_pages import MAX_ROWS, SORTS, STATES
from detent.operations.intake import MAX_AT_ONCE
from detent.operations.manual import CLASSES, ENDS, MAX_HOLD_S, STATE_SETTERS
from detent.operations.registry import Scope
from detent.operations.resources import MAX_CAPACITY, MAX_NAMES
from detent.operations.schedules import MAX_TIMES
from detent.operations.stats import MAX_HOURS, STATE_KEY
from detent.operations.tokens import MAX_LIFETIME_S
from detent.operations.tokens import NAME as TOKEN_NAME
from detent.operations.webhooks import LONGEST_URL, MAX_OVERLAP_S, ONLY, OVERLAP_S, SHAPES
from detent.operations.webhooks import MAX_NAMES as MAX_FILTERED
from detent.operations.webhooks import NAME as WEBHOOK_NAME
from detent.schedule_times import MISSED, OVERLAPS
from detent.submission.delay import FORMS
from detent.submission.options import OPTIONS
from detent.submission.request import MAX_DEPENDENCIES, MAX_NAME, MAX_TAGS, MAX_TIME, MAX_TITLE

#: The largest whole number that every part understands.
MAX_INTEGER = 2**63 - 1
OWN_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"
NAME = f"^{TOKEN_NAME.pattern}$"
NAMES = {"items": {"type": "string", "minLength": 1}}
SCOPES = {"items": {"type": "string", "enum": [scope.value for scope in Scope]}}
NOT_BEFORE = (
    r"^([0-9]{1,9}[smhd]|"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2}))$"
)
AMOUNT = {
    "anyOf": [
        {"type": "number", "minimum": 0.000001, "maximum": 1_000_000_000},
        {"type": "null"},
    ]
}


@dataclass(frozen=True, slots=True)
class Input:
    """One parameter. `shortest` and `longest` count characters, or the entries of a list."""

    meaning: str
    example: Any = None
    shortest: int | None = None
    longest: int | None = None
    least: int | None = None
    most: int | None = None
    pattern: str | None = None
    #: What a caller may choose from, and further words of JSON Schema: documented here, checked by
    #: the operation itself, whose refusal says more.
    choices: tuple[str, ...] = ()
    schema: Mapping[str, Any] = field(default_factory=dict)


def _name(meaning: str, example: str) -> Input:
    return Input(meaning, example, shortest=1, longest=MAX_NAME)


INPUTS: Mapping[str, Input] = {
    # submitting
    "taskId": Input("The caller's own id of the task", "build-1042", pattern=OWN_ID),
    "id": Input("An id of the caller's own; made if it is not given", "build-1042", pattern=OWN_ID),
    "source": _name("Where the work comes from", "api"),
    "intent": _name("What kind of work it is", "runQA"),
    "priority": Input(
        "P0 is first; high, normal and low stand for P0, P2 and P3",
        "P2",
        choices=(*Priority, *ALIASES),
    ),
    "payload": Input(
        "What the work is about: any JSON value but null, in the arguments of its handler",
        {"project": "demo"},
    ),
    "project": _name("The project that it belongs to", "demo"),
    "lifecycle": Input("Which life the task leads", "review", choices=("review", "board")),
    "title": Input("What people call it", "Check the release", longest=MAX_TITLE),
    "tags": Input("Tags to find it by", ["release"], longest=MAX_TAGS, schema=NAMES),
    "depends_on": Input(
        "Tasks that must be done before it starts", [], longest=MAX_DEPENDENCIES, schema=NAMES
    ),
    "parent_id": _name("The task that it is a part of", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "max_budget_usd": Input("Most that it may spend, in dollars", 5.0, schema=AMOUNT),
    "options": Input(
        "How it is carried out: retry, plan, limits and so on",
        {"max_rounds": 3},
        schema={
            "properties": {
                name: {"description": each.meaning, "examples": [each.example]}
                for name, each in OPTIONS.items()
            }
        },
    ),
    "run": Input("Queue it at once", True),
    "not_before": Input(
        f"Start it no earlier than this: {', or '.join(FORMS)}",
        "10m",
        shortest=1,
        longest=MAX_TIME,
        schema={"pattern": NOT_BEFORE},
    ),
    "idempotency_key": _name("The same key never makes a second task", "4d0c7e1a"),
    "concurrency_key": _name("Jobs with the same key run one at a time", "customer-7"),
    "tasks": Input("The tasks, each with the fields of a single one", None, longest=MAX_AT_ONCE),
    # acting
    "ids": Input(
        "The tasks, or jobs where the verb knows them; what is named twice counts once",
        ["019a8b7cz4f8h2m5n9q1r3t6vw"],
        shortest=1,
        longest=MAX_TOGETHER,
    ),
    "task_id": _name("The task", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "job_id": _name("The job", "019a8b7cz4f8h2m5n9q1r3t6vw-j1"),
    "session_id": _name("The browser session", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "run_id": _name("The run", "019a8b7cz4f8h2m5n9q1r3t6vw-j1-r1"),
    "reason": _name("Why", "no longer wanted"),
    "comment": Input("A remark for the record, told to the next run", "Looks good", longest=10_000),
    "seen": Input(
        "The version that was looked at; another one refuses", 7, least=1, most=MAX_INTEGER
    ),
    "answer": Input("The answer: one of the options if the question has some", "yes"),
    "intake_id": Input("The refused submission", "7", pattern=r"^[0-9]{1,18}$"),
    "question": _name("Which question, if several are open: the name of its wait", "ask"),
    "name": _name("Its name", "approved"),
    "value": Input("What the signal carries: any JSON value", {"by": "ops"}),
    # looking
    "state": Input("Only these states, separated by commas", "failed"),
    "tag": _name("Only tasks with this tag", "release"),
    "worker": _name("Only runs of this worker", "host:4711"),
    "active": Input("Only what has not ended", True),
    "search": Input(
        "Only what has this text in its id, its name or its error", "cert", longest=200
    ),
    "sort": Input("The column to sort by; - before it turns the order around"),
    "cursor": Input("Where the last page ended", None, longest=1_000),
    "limit": Input("At most so many", 100, least=1, most=MAX_ROWS),
    "after": Input("Only what comes after this position of the log", 0, least=0, most=MAX_INTEGER),
    "offset": Input("From this byte on", 0, least=0, most=MAX_INTEGER),
    "position": Input("A position of the log", 42, least=0, most=MAX_INTEGER),
    "time": Input("A time with its zone", "2030-01-01T12:00:00Z", longest=40),
    "step": _name("The step from which the new job goes on", "build"),
    # a run's own door
    "text": Input("The question, or the content as text", "Which database?", longest=1_048_576),
    "base64": Input("The content, if it is no text", "aGVsbG8=", longest=1_398_104),
    "default": Input("What counts when nobody answers in time: any JSON value", "yes"),
    "progress": Input("How far the run is, from 0 to 1", 0.5, schema={"minimum": 0, "maximum": 1}),
    "note": Input("What the run is doing", "running the tests", longest=2_000),
    # by hand
    "hold_s": Input("How long the run is the caller's", 3_600, least=1, most=MAX_HOLD_S),
    "exit_code": Input("How it ended: 0 is well", 0, least=-255, most=255),
    "error": Input("What went wrong", "the build is red", longest=10_000),
    "outcome": Input("How it ended, where no exit code tells", "failed", choices=ENDS),
    "error_class": Input("Which kind of failure it is", "error", choices=CLASSES),
    "result": Input("What came out: any JSON value", {"passed": 12}),
    # the installation
    "capabilities": Input("What it can do", ["browser"], longest=MAX_NAMES, schema=NAMES),
    "labels": Input("What it is, by name", {"os": "linux"}),
    "capacity": Input("How many may hold it at once", 1, least=1, most=MAX_CAPACITY),
    "healthy": Input("Whether it is given out", True),
    "cron": Input(
        "Its times as a cron expression", "0 3 * * *", longest=200, schema={"minLength": 9}
    ),
    "timezone": _name("The time zone of the cron expression", "Europe/Berlin"),
    "every_s": Input("Its times as an interval, in seconds", 900, least=1, most=31_536_000),
    "overlap": Input("If the last one is still at work", "skip", choices=OVERLAPS),
    "missed": Input("What becomes of times that were missed", "once", choices=MISSED),
    "count": Input("How many", 5, least=1, most=MAX_TIMES),
    "hours": Input("How far back, in hours", 24, least=1, most=MAX_HOURS),
    # webhooks
    "url": Input(
        "Where it is sent",
        "https://example.org/hook",
        longest=LONGEST_URL,
        schema={"minLength": 8},
    ),
    "shape": Input("What it looks like", "cloudevents", choices=SHAPES),
    "events": Input("Only these events", ["task_ready"], longest=MAX_FILTERED, schema=NAMES),
    "projects": Input("Only these projects", ["demo"], longest=MAX_FILTERED, schema=NAMES),
    "intents": Input("Only these intents", ["runQA"], longest=MAX_FILTERED, schema=NAMES),
    "only": Input("people: only what needs a person", "people", choices=ONLY),
    "paused": Input("Whether it waits", False),
    "overlap_s": Input(
        "How long the old key signs along, in seconds", OVERLAP_S, least=0, most=MAX_OVERLAP_S
    ),
    "dead": Input("What was given up is tried again", True),
    # tokens
    "scopes": Input("What the token may do", ["read", "submit"], 1, len(Scope), schema=SCOPES),
    "expires_in_s": Input("How long it is valid, in seconds", 86_400, least=1, most=MAX_LIFETIME_S),
}


def _states(table: str) -> Input:
    words = "|".join(dict.fromkeys(STATES[table]))
    return replace(INPUTS["state"], schema={"pattern": f"^({words})(,({words}))*$"})


def _sorts(table: str, example: str) -> Input:
    choices = tuple(sign + column for column in SORTS[table] for sign in ("", "-"))
    return replace(INPUTS["sort"], example=example, choices=choices)


def _webhook_name() -> Input:
    return Input("The webhook", "chat", pattern=f"^{WEBHOOK_NAME.pattern}$")


#: Of many: the version of each that was looked at.
SEEN = Input(
    "The version of each that was looked at, by its id; another one refuses",
    {"019a8b7cz4f8h2m5n9q1r3t6vw": 7},
)
#: Parameters that mean something of their own in one operation.
OWN: Mapping[tuple[str, str], Input] = {
    ("show_lifecycle", "name"): Input("The lifecycle", "board", choices=tuple(LIFECYCLES)),
    ("lifecycle_diagram", "name"): Input("The lifecycle", "board", choices=tuple(LIFECYCLES)),
    ("accept_many", "seen"): SEEN,
    ("reject_many", "seen"): SEEN,
    ("own_evidence", "name"): _name("The name of the file", "QA-DECISION.md"),
    ("own_question", "options"): Input("Answers to choose from", ["yes", "no"], longest=20),
    ("own_question", "expires_in_s"): Input(
        "How long it may stay open, in seconds", 86_400, least=1, most=MAX_LIFETIME_S
    ),
    ("own_subtask", "priority"): replace(
        INPUTS["priority"], meaning="Not above the task's own; without it the same"
    ),
    ("put_resource", "name"): _name("The resource", "phone"),
    ("drain_resource", "name"): _name("The resource", "phone"),
    ("undrain_resource", "name"): _name("The resource", "phone"),
    ("delete_resource", "name"): _name("The resource", "phone"),
    ("drain_worker", "name"): _name("The worker", "host:4711"),
    ("undrain_worker", "name"): _name("The worker", "host:4711"),
    ("create_project", "name"): _name("What the project is called", "demo"),
    ("show_project", "name"): _name("The project", "demo"),
    ("set_state", "name"): replace(
        _name("Which value", "release"), schema={"pattern": f"^{STATE_KEY.pattern}$"}
    ),
    ("set_state", "value"): Input("Any JSON value; null removes it", "2026.1"),
    ("set_task_state", "state"): Input(
        "The state that is wanted", "done", choices=tuple(STATE_SETTERS)
    ),
    ("put_schedule", "lifecycle"): Input(
        "Which life its tasks lead", "board", choices=("review", "board")
    ),
    ("put_webhook", "name"): _webhook_name(),
    ("delete_webhook", "name"): _webhook_name(),
    ("rotate_webhook_key", "name"): _webhook_name(),
    ("try_webhook", "name"): _webhook_name(),
    ("list_deliveries", "name"): _webhook_name(),
    ("replay_webhook", "name"): _webhook_name(),
    ("create_token", "name"): Input("What the token is called", "ci", pattern=NAME),
    ("revoke_token", "name"): _name("What the token is called", "ci"),
    ("list_tasks", "state"): _states("tasks"),
    ("list_jobs", "state"): _states("jobs"),
    ("list_runs", "state"): _states("runs"),
    ("list_tasks", "sort"): _sorts("tasks", "-created_at"),
    ("list_jobs", "sort"): _sorts("jobs", "-created_at"),
    ("list_runs", "sort"): _sorts("runs", "-queued_at"),
}


def input_for(operation: str, parameter: str) -> Input:
    """What is known of a parameter; one that is missing here is a mistake in the program."""
    return OWN.get((operation, parameter)) or INPUTS[parameter]
