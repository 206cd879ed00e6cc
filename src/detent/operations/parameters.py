"""The parameters of operations: by name, the description, an example and the bounds of each.

HTTP documents and enforces them; MCP describes its tools with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from detent.kernel.decide.comments import LONGEST_TEXT, SIDES
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.priority import ALIASES, Priority
from detent.limit_config import COST_USD, NUMBERS, OF_PROJECTS
from detent.operations.bulk import MAX_TOGETHER
from detent.operations.cursor_pages import MAX_ROWS, SORTS
from detent.operations.intake import MAX_TASKS
from detent.operations.limits import MAX_PAUSE_S
from detent.operations.manual_runs import CLASSES, ENDS, MAX_HOLD_S
from detent.operations.project_quotas import FIELDS
from detent.operations.registry import Scope
from detent.operations.resources import MAX_CAPACITY, MAX_NAMES
from detent.operations.run_transcript import LONGEST_QUERY, MAX_ITEMS
from detent.operations.schedules import MAX_TIMES
from detent.operations.stats import MAX_HOURS, STATE_KEY
from detent.operations.tokens import MAX_LIFETIME_S
from detent.operations.tokens import NAME as TOKEN_NAME
from detent.operations.waiting_work import KINDS
from detent.operations.webhooks import LONGEST_URL, MAX_OVERLAP_S, ONLY, OVERLAP_S, SHAPES
from detent.operations.webhooks import MAX_NAMES as MAX_FILTERED
from detent.operations.webhooks import NAME as WEBHOOK_NAME
from detent.schedule_times import MISSED, OVERLAPS
from detent.submission.not_before import FORMS
from detent.submission.options import OPTIONS
from detent.submission.request import MAX_DEPENDENCIES, MAX_NAME, MAX_TAGS, MAX_TIME, MAX_TITLE

#: The largest integer of a database column.
MAX_INTEGER = 2**63 - 1
SHA256 = "^[0-9a-f]{64}$"
#: By field of a project's quota: its description and an example.
QUOTAS = {
    "weight": ("Its share of the claims among projects", 3),
    "running": ("How many of its jobs may run at the same time", 8),
    "rate": ("How many of its jobs may start in `per_s` seconds", 10),
    "per_s": ("The time of `rate`, in seconds", 60),
    "submit_rate": ("How many submissions are accepted in `submit_per_s` seconds", 100),
    "submit_per_s": ("The time of `submit_rate`, in seconds", 60),
    "stored_bytes": ("Bytes of payloads and evidence", 10_737_418_240),
}
#: The longest path of a file, which systems and the length of a request limit.
MAX_PATH = 4_096
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
    """One parameter. `shortest` and `longest` count characters, or the entries of a list.

    `choices` and `schema` (further keywords of JSON Schema) are documentation: the operation
    checks them itself, because its error message says more.
    """

    meaning: str
    example: Any = None
    shortest: int | None = None
    longest: int | None = None
    least: int | None = None
    most: int | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    schema: Mapping[str, Any] = field(default_factory=dict)


def _name(meaning: str, example: str) -> Input:
    return Input(meaning, example, shortest=1, longest=MAX_NAME)


INPUTS: Mapping[str, Input] = {
    # submission
    "taskId": Input("The id of the task, chosen by the caller", "build-1042", pattern=OWN_ID),
    "id": Input(
        "An id chosen by the caller; generated if it is left out", "build-1042", pattern=OWN_ID
    ),
    "source": _name("The source of the task; `intake.sources` lists the allowed ones", "api"),
    "intent": _name("The task type", "runQA"),
    "priority": Input(
        "The priority: P0 is highest; high, normal and low mean P0, P2 and P3",
        "P2",
        choices=(*Priority, *ALIASES),
    ),
    "payload": Input(
        "The input of the handler: any JSON value except null",
        {"project": "demo"},
    ),
    "project": _name("The project", "demo"),
    "lifecycle": _name("The lifecycle of the task", "review"),
    "title": Input("The title that people see", "Check the release", longest=MAX_TITLE),
    "tags": Input("Tags, to filter lists by", ["release"], longest=MAX_TAGS, schema=NAMES),
    "depends_on": Input(
        "Tasks that must be completed before this task starts",
        [],
        longest=MAX_DEPENDENCIES,
        schema=NAMES,
    ),
    "parent_id": _name("The parent task, for a subtask", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "max_budget_usd": Input("The maximum that it may spend, in dollars", 5.0, schema=AMOUNT),
    "options": Input(
        "Options of execution, such as the retry policy, a plan and timeouts",
        {"max_rounds": 3},
        schema={
            "properties": {
                name: {"description": each.meaning, "examples": [each.example]}
                for name, each in OPTIONS.items()
            }
        },
    ),
    "run": Input("Whether the task is queued immediately", True),
    "not_before": Input(
        f"The earliest start: {', or '.join(FORMS)}",
        "10m",
        shortest=1,
        longest=MAX_TIME,
        schema={"pattern": NOT_BEFORE},
    ),
    "idempotency_key": _name(
        "A repeated request with the same key returns the first task", "4d0c7e1a"
    ),
    "concurrency_key": _name("Jobs with the same key run one at a time", "customer-7"),
    "tasks": Input("The tasks, each with the fields of `submit_task`", None, longest=MAX_TASKS),
    # actions
    "ids": Input(
        "Ids of tasks, and of jobs where the action applies to jobs; duplicates are ignored",
        ["019a8b7cz4f8h2m5n9q1r3t6vw"],
        shortest=1,
        longest=MAX_TOGETHER,
    ),
    "task_id": _name("The id of the task", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "job_id": _name("The id of the job", "019a8b7cz4f8h2m5n9q1r3t6vw-j1"),
    "session_id": _name("The id of the browser session", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "run_id": _name("The id of the run", "019a8b7cz4f8h2m5n9q1r3t6vw-j1-r1"),
    "part": _name("The first or last characters of an id", "r3t6vw"),
    "kind": Input("The kind of id", "task", choices=("task", "job", "run")),
    "other": Input("Whether answers other than the options are allowed", False),
    "key": _name("The concurrency key", "device-7"),
    **{
        name: Input(text, example, least=least, most=most)
        for name, (text, example) in QUOTAS.items()
        for least, most in [{**NUMBERS, **OF_PROJECTS}[name]]
    },
    COST_USD: Input("Dollars that its runs may cost in a day (UTC)", 25.0, schema=AMOUNT),
    "clear": Input("Fields to remove", ["stored_bytes"], longest=len(FIELDS), schema=NAMES),
    "for_s": Input(
        "The duration, in seconds; without it there is no end", 3_600, least=1, most=MAX_PAUSE_S
    ),
    "reason": _name("The reason, for the record", "no longer wanted"),
    "comment_id": _name("The id of the comment", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "draft_id": Input(
        "The id of the draft, chosen by the caller; the published comment has it too",
        "draft-1",
        pattern=OWN_ID,
    ),
    "reply_to": _name("The id of the comment, for a reply", "019a8b7cz4f8h2m5n9q1r3t6vw"),
    "resolved": Input("Whether the run considers the comment resolved; people resolve it", True),
    "side": Input("The side of the diff that the lines are on", "after", choices=SIDES),
    "start": Input("The first line; 0 for the whole file", 3, least=0, most=MAX_INTEGER),
    "end": Input("The last line; 0 for the whole file", 4, least=0, most=MAX_INTEGER),
    "comment": Input("The review comment; the next run gets it", "Looks good", longest=10_000),
    "event": _name("An event of the task's lifecycle that people may send", "task_cancelled"),
    "without_action": Input("Accept it without the declared merge or push", False),
    "seen": Input(
        "The version that was read; if the task has changed since, the request is refused",
        7,
        least=1,
        most=MAX_INTEGER,
    ),
    "person": Input("The person who is to deal with it", "ada", schema={"pattern": NAME}),
    "until": Input(
        f"When it comes back: {', or '.join(FORMS)}", "2h", shortest=1, longest=MAX_TIME
    ),
    "answer": Input("The answer; one of the options, if the question has options", "yes"),
    "base": Input("The address of the gateway, for links", "http://127.0.0.1:5680", longest=2_000),
    "authorization": Input("The header Authorization of the requests", "Bearer abc", longest=2_000),
    "token": Input("The header X-A2A-Notification-Token of the requests", "abc", longest=2_000),
    "own": Input("Only tasks that the caller created", False),
    "intake_id": Input("The id of the refused submission", "7", pattern=r"^[0-9]{1,18}$"),
    "question": _name("The name of the question; needed if several are open", "ask"),
    "name": _name("The name", "approved"),
    "value": Input("The value of the signal: any JSON value", {"by": "ops"}),
    # lists
    "state": Input("Only these states, separated by commas", "failed"),
    "tag": _name("Only tasks with this tag", "release"),
    "worker": _name("Only runs of this worker", "host:4711"),
    "assigned_to": Input(
        "Only tasks that are assigned to this person", "ada", schema={"pattern": NAME}
    ),
    "mine": Input("Only tasks that are assigned to the caller", True),
    "unassigned": Input("Only items that are assigned to no person", True),
    "snoozed": Input("Only tasks that the caller has snoozed", True),
    "item": _name(
        "Only the item of the task with this id, or the questions of the job with this id",
        "019a8b7cz4f8h2m5n9q1r3t6vw",
    ),
    "active": Input("Only tasks that have not ended", True),
    "search": Input(
        "Only rows with this text in the id, the name, the error or the title of the task",
        "cert",
        longest=200,
    ),
    "sort": Input("The column to sort by; a leading - sorts in descending order"),
    "cursor": Input("The cursor of the previous page", None, longest=1_000),
    "limit": Input("The maximum number of entries", 100, least=1, most=MAX_ROWS),
    "after": Input("Only events after this position of the log", 0, least=0, most=MAX_INTEGER),
    "offset": Input("The first byte to return", 0, least=0, most=MAX_INTEGER),
    "q": Input("Only items with this text, in upper or lower case", "error", longest=LONGEST_QUERY),
    "position": Input("A position of the log", 42, least=0, most=MAX_INTEGER),
    "time": Input("A time with a time zone", "2030-01-01T12:00:00Z", longest=40),
    "step": _name("The step from which the new job continues", "build"),
    # reviews
    "path": Input("The path of a file of the diff", "src/app.py", shortest=1, longest=MAX_PATH),
    "diff": Input("The SHA-256 of a diff of the task", "0" * 64, pattern=SHA256),
    "variant": Input("The number of a variant of the task, or its id", 2),
    "since": Input("The SHA-256 of an earlier diff of the task", "0" * 64, pattern=SHA256),
    "viewed": Input("Whether the file is marked as viewed", True),
    # a run's own token
    "text": Input("The question, or the content as text", "Which database?", longest=1_048_576),
    "base64": Input("The content in base64, if it is not text", "aGVsbG8=", longest=1_398_104),
    "default": Input("The answer if no person answers in time: any JSON value", "yes"),
    "progress": Input(
        "The progress of the run, from 0 to 1", 0.5, schema={"minimum": 0, "maximum": 1}
    ),
    "note": Input("What the run is doing now", "running the tests", longest=2_000),
    # manual runs
    "hold_s": Input(
        "How long the caller may hold the run, in seconds", 3_600, least=1, most=MAX_HOLD_S
    ),
    "exit_code": Input("The exit code; 0 means success", 0, least=-255, most=255),
    "error": Input("The error message", "the build is red", longest=10_000),
    "outcome": Input("The outcome; needed without an exit code", "failed", choices=ENDS),
    "error_class": Input("The failure class", "error", choices=CLASSES),
    "result": Input("The result: any JSON value", {"passed": 12}),
    # the installation
    "capabilities": Input(
        "The capabilities of the resource", ["browser"], longest=MAX_NAMES, schema=NAMES
    ),
    "labels": Input("The labels of the resource", {"os": "linux"}),
    "capacity": Input("How many steps may hold it at the same time", 1, least=1, most=MAX_CAPACITY),
    "healthy": Input("Whether steps may be given the resource", True),
    "service": _name(
        "The service of a provider; its providers share a circuit breaker", "anthropic"
    ),
    "personal": Input("Whether the provider is the account of a person", False),
    "cron": Input(
        "When it fires, as a cron expression", "0 3 * * *", longest=200, schema={"minLength": 9}
    ),
    "timezone": _name("The time zone of the cron expression", "Europe/Berlin"),
    "every_s": Input("When it fires, as an interval in seconds", 900, least=1, most=31_536_000),
    "overlap": Input("What to do while the previous task has not ended", "skip", choices=OVERLAPS),
    "missed": Input("What to do about missed times", "once", choices=MISSED),
    "count": Input("The number of times to list", 5, least=1, most=MAX_TIMES),
    "hours": Input("The length of the window, in hours", 24, least=1, most=MAX_HOURS),
    # webhooks
    "url": Input(
        "The URL that receives the deliveries",
        "https://example.org/hook",
        longest=LONGEST_URL,
        schema={"minLength": 8},
    ),
    "shape": Input("The format of a delivery", "cloudevents", choices=SHAPES),
    "events": Input("Only these events", ["task_ready"], longest=MAX_FILTERED, schema=NAMES),
    "projects": Input("Only these projects", ["demo"], longest=MAX_FILTERED, schema=NAMES),
    "intents": Input("Only these intents", ["runQA"], longest=MAX_FILTERED, schema=NAMES),
    "only": Input("`people`: only events that need a person", "people", choices=ONLY),
    "paused": Input("Whether deliveries are paused", False),
    "overlap_s": Input(
        "How long the old keys sign as well, in seconds", OVERLAP_S, least=0, most=MAX_OVERLAP_S
    ),
    "dead": Input("Retry the dead deliveries, which were given up", True),
    # tokens
    "scopes": Input("The scopes of the token", ["read", "submit"], 1, len(Scope), schema=SCOPES),
    "expires_in_s": Input(
        "How long the token is valid, in seconds", 86_400, least=1, most=MAX_LIFETIME_S
    ),
    # lifecycles
    "counts": Input("Whether to count the tasks of each version", True),
    "document": Input(
        "The lifecycle: the text of a TOML file, or its values as an object",
        'name = "release"\n…',
        schema={"anyOf": [{"type": "string"}, {"type": "object"}]},
    ),
    "file": Input(
        "The name of the file, for error messages", "release.toml", shortest=1, longest=MAX_TITLE
    ),
    "dry_run": Input("Only say which tasks would be migrated", True),
}


def _states(level: str) -> Input:
    words = "|".join(LIFECYCLES[level].state_names)
    return replace(INPUTS["state"], schema={"pattern": f"^({words})(,({words}))*$"})


def _sorts(table: str, example: str) -> Input:
    choices = tuple(sign + column for column in SORTS[table] for sign in ("", "-"))
    return replace(INPUTS["sort"], example=example, choices=choices)


def _webhook_name() -> Input:
    return Input("The name of the webhook", "chat", pattern=f"^{WEBHOOK_NAME.pattern}$")


def _comment_text() -> Input:
    return Input("The text, in Markdown", "Handle the empty list.", longest=LONGEST_TEXT)


def _file_of_diff() -> Input:
    return Input("The path of a file of the diff", "src/app.py", shortest=1, longest=MAX_PATH)


#: Operations about the diff under review.
VERDICTS = ("accept_task", "reject_task", "send_event", "request_changes", "add_comment")
REVIEWED_DIFF = replace(
    INPUTS["diff"],
    meaning="The SHA-256 of the diff that was read; refused if another one is under review now",
)
#: The versions that the reviewer saw, for actions on many tasks.
SEEN = Input(
    "By id, the version of the task that the reviewer saw; refused if it has changed",
    {"019a8b7cz4f8h2m5n9q1r3t6vw": 7},
)
#: Parameters that have a meaning of their own in one operation.
OWN: Mapping[tuple[str, str], Input] = {
    ("inbox", "kind"): Input(
        "Only items of these kinds, separated by commas",
        "review",
        schema={"pattern": f"^({'|'.join(KINDS)})(,({'|'.join(KINDS)}))*$"},
    ),
    ("remove_lifecycle", "name"): _name("The name of the lifecycle", "release"),
    ("migrate_lifecycle", "name"): _name("The name of the lifecycle", "release"),
    ("migrate_lifecycle", "after"): Input("`next` of the answer before", "", longest=MAX_NAME),
    ("show_lifecycle", "name"): _name("The id of the lifecycle", "board"),
    ("lifecycle_diagram", "name"): _name("The id of the lifecycle", "board"),
    ("show_lifecycle_document", "name"): _name(
        "The name of the lifecycle, or `name@version`", "board"
    ),
    ("answer_task", "idempotency_key"): _name(
        "A repeated request with the same key changes nothing", "4d0c7e1a"
    ),
    ("accept_many", "seen"): SEEN,
    ("send_event_to_many", "seen"): SEEN,
    ("reject_many", "seen"): SEEN,
    ("add_comment", "text"): _comment_text(),
    ("add_comment", "file"): _file_of_diff(),
    ("save_draft", "text"): _comment_text(),
    ("save_draft", "file"): _file_of_diff(),
    ("reply_to_comment", "text"): _comment_text(),
    ("own_reply", "text"): _comment_text(),
    **{(verdict, "diff"): REVIEWED_DIFF for verdict in VERDICTS},
    ("run_transcript", "after"): Input(
        "Only items after the one with this number", 0, least=0, most=MAX_INTEGER
    ),
    ("run_transcript", "limit"): Input("The maximum number of items", 200, least=1, most=MAX_ITEMS),
    ("own_evidence", "name"): _name("The name of the file", "QA-DECISION.md"),
    ("own_question", "options"): Input("The answers to choose from", ["yes", "no"], longest=20),
    ("own_question", "expires_in_s"): Input(
        "How long the question stays open, in seconds", 86_400, least=1, most=MAX_LIFETIME_S
    ),
    ("own_subtask", "priority"): replace(
        INPUTS["priority"],
        meaning="The priority, at most that of the task; that of the task if it is left out",
    ),
    ("put_resource", "name"): _name("The name of the resource", "phone"),
    ("drain_resource", "name"): _name("The name of the resource", "phone"),
    ("undrain_resource", "name"): _name("The name of the resource", "phone"),
    ("reset_resource", "name"): _name("The name of the provider", "anthropic-team"),
    ("delete_resource", "name"): _name("The name of the resource", "phone"),
    ("drain_worker", "name"): _name("The name of the worker", "host:4711"),
    ("undrain_worker", "name"): _name("The name of the worker", "host:4711"),
    ("create_project", "name"): _name("The name of the project", "demo"),
    ("show_project", "name"): _name("The name of the project", "demo"),
    ("set_project_quota", "name"): _name("The name of the project", "demo"),
    ("set_state", "name"): replace(
        _name("The name of the value", "release"), schema={"pattern": f"^{STATE_KEY.pattern}$"}
    ),
    ("set_state", "value"): Input("The new value: any JSON value; null deletes it", "2026.1"),
    ("set_task_state", "state"): _name("The new state", "cancelled"),
    ("put_schedule", "lifecycle"): _name("The lifecycle of its tasks", "board"),
    ("put_webhook", "name"): _webhook_name(),
    ("delete_webhook", "name"): _webhook_name(),
    ("rotate_webhook_key", "name"): _webhook_name(),
    ("try_webhook", "name"): _webhook_name(),
    ("list_deliveries", "name"): _webhook_name(),
    ("replay_webhook", "name"): _webhook_name(),
    ("create_token", "name"): Input("The name of the token", "ci", schema={"pattern": NAME}),
    ("revoke_token", "name"): _name("The name of the token", "ci"),
    ("list_tasks", "state"): INPUTS["state"],
    ("list_jobs", "state"): _states("job"),
    ("list_runs", "state"): _states("run"),
    ("list_tasks", "sort"): _sorts("tasks", "-created_at"),
    ("list_jobs", "sort"): _sorts("jobs", "-created_at"),
    ("list_runs", "sort"): _sorts("runs", "-queued_at"),
}


def input_for(operation: str, parameter: str) -> Input:
    """The description of a parameter. A KeyError means that the table lacks the parameter."""
    return OWN.get((operation, parameter)) or INPUTS[parameter]
