"""The table of commands: where each is defined, its line in `--help`, and its section.

To add a command, add a line to COMMANDS. Its module is imported only when the command is used, so
that `detent --help` stays fast. This is why the table repeats the first sentence of each help text.
"""

from collections.abc import Mapping
from typing import NamedTuple

RUN, WORK, INSPECT = "Run detent", "Work", "Inspect"
INSTALLATION, DATA, INTEGRATIONS = "Installation", "Data", "Integrations"


class Command(NamedTuple):
    """A command: where it is defined (module:attribute), its line in `--help`, and its section."""

    target: str
    help: str
    section: str = INTEGRATIONS


COMMANDS: Mapping[str, Command] = {
    "init": Command("detent.cli.up:init", "Write a starter detent.toml to edit.", RUN),
    "up": Command(
        "detent.cli.up:up", "Run the gateway, a worker and a keeper in one process.", RUN
    ),
    "serve": Command("detent.cli.up:serve", "Run only a gateway.", RUN),
    "worker": Command(
        "detent.cli.up:worker",
        "Run only a worker; any number can run, on any machine.",
        RUN,
    ),
    "keeper": Command(
        "detent.cli.up:keeper",
        "Run only a keeper (scheduler and maintenance); one is active, others stand by.",
        RUN,
    ),
    "dashboard": Command(
        "detent.cli.dashboard:dashboard",
        "Open the dashboard with a login link that works once, within a minute.",
        RUN,
    ),
    "submit": Command(
        "detent.cli.submit:submit",
        "Submit a task of the type INTENT and queue it.",
        WORK,
    ),
    "wait": Command(
        "detent.cli.wait:wait", "Wait until a task has ended, or needs a person.", WORK
    ),
    "run": Command("detent.cli.task_verbs:run", "Queue tasks, or run failed tasks again.", WORK),
    "cancel": Command("detent.cli.task_verbs:cancel", "Cancel tasks and their subtasks.", WORK),
    "retry": Command(
        "detent.cli.task_verbs:retry", "Run tasks again and reset their retry counts.", WORK
    ),
    "resume": Command(
        "detent.cli.task_verbs:resume",
        "Continue timed-out tasks in their agent sessions.",
        WORK,
    ),
    "accept": Command("detent.cli.task_verbs:accept", "Accept work that waits for review.", WORK),
    "reject": Command("detent.cli.task_verbs:reject", "Reject work that waits for review.", WORK),
    "review": Command("detent.cli.review:review", "Review a diff: comment on it and decide.", WORK),
    "comments": Command(
        "detent.cli.review_comments:comments",
        "List the comments on a task's diff, with their replies, and your drafts.",
        WORK,
    ),
    "comment": Command(
        "detent.cli.review_comments:comment",
        "Comment on lines of a task's diff; without a line, on the whole file.",
        WORK,
    ),
    "reply": Command(
        "detent.cli.review_comments:reply", "Reply to a comment on a task's diff.", WORK
    ),
    "resolve": Command(
        "detent.cli.review_comments:resolve",
        "Mark a comment on a task's diff as resolved.",
        WORK,
    ),
    "request-changes": Command(
        "detent.cli.review_comments:request_changes",
        "Send work back with all open comments, and run it again in the same session.",
        WORK,
    ),
    "answer": Command(
        "detent.cli.task_verbs:answer",
        "Answer the open question of a task, or of a job without a task.",
        WORK,
    ),
    "variants": Command("detent.cli.variants:variants", "Compare the variants of a task.", WORK),
    "choose": Command("detent.cli.variants:choose", "Choose one of a task's variants.", WORK),
    "signal": Command(
        "detent.cli.task_verbs:signal",
        "Send a named signal to a job, or to the job of a task.",
        WORK,
    ),
    "send": Command(
        "detent.cli.lifecycle_documents:send",
        "Send a task an event of its lifecycle, such as task_approved.",
        WORK,
    ),
    "dismiss": Command(
        "detent.cli.task_verbs:dismiss",
        "Stop waiting for failed subtasks, so that their parents continue.",
        WORK,
    ),
    "delete": Command("detent.cli.task_verbs:delete", "Delete tasks and their data.", WORK),
    "raise": Command(
        "detent.cli.costs:raise_budget",
        "Set a task's budget in dollars; work that waited for budget continues.",
        WORK,
    ),
    "fork": Command(
        "detent.cli.history:fork",
        "Queue a new job that keeps a job's results before STEP and continues from there.",
        WORK,
    ),
    "inbox": Command(
        "detent.cli.inbox:inbox",
        "Handle the items that wait for a person, one by one, the most urgent first.",
        WORK,
    ),
    "assign": Command(
        "detent.cli.task_verbs:assign",
        "Assign a task to a person, who finds it with detent inbox --mine.",
        WORK,
    ),
    "snooze": Command(
        "detent.cli.task_verbs:snooze",
        "Hide a task from your inbox until a time.",
        WORK,
    ),
    "pause": Command(
        "detent.cli.limits:pause",
        "Pause an intent, a project, a concurrency key or all work: no new work starts.",
        WORK,
    ),
    "unpause": Command(
        "detent.cli.limits:unpause",
        "End the pause of an intent, of a project, of a concurrency key or of all work.",
        WORK,
    ),
    "tasks": Command(
        "detent.cli.tasks:tasks",
        "List tasks, newest first; create a task, or set its fields or state.",
        INSPECT,
    ),
    "jobs": Command("detent.cli.show:jobs", "List jobs, newest first.", INSPECT),
    "runs": Command(
        "detent.cli.runs:runs",
        "List runs, newest first; begin or end a run manually.",
        INSPECT,
    ),
    "steps": Command(
        "detent.cli.show:steps",
        "List the plan steps of a task or job.",
        INSPECT,
    ),
    "show": Command(
        "detent.cli.show:show",
        "Show one task, job or run with its state and history.",
        INSPECT,
    ),
    "why": Command(
        "detent.cli.show:why",
        "Explain why a task or job is not running, and who can change that.",
        INSPECT,
    ),
    "costs": Command(
        "detent.cli.costs:costs",
        "Show the cost of a task by run and by subtask.",
        INSPECT,
    ),
    "at": Command(
        "detent.cli.history:at",
        "Show a task as it was after a position of the log, or at a time.",
        INSPECT,
    ),
    "watch": Command(
        "detent.cli.watch:watch",
        "Watch the board live; a bell rings when something waits for a person.",
        INSPECT,
    ),
    "logs": Command("detent.cli.logs:logs", "Print the output of a task's latest run.", INSPECT),
    "evidence": Command(
        "detent.cli.evidence:evidence",
        "List and save the evidence files of runs; add a file manually.",
        INSPECT,
    ),
    "diff": Command(
        "detent.cli.diff:diff",
        "Show the changes of a task that is under review, or since an earlier round.",
        INSPECT,
    ),
    "events": Command(
        "detent.cli.events:events",
        "Print the event log, or the history of one task or job.",
        INSPECT,
    ),
    "health": Command(
        "detent.cli.installation:health",
        "Report whether the installation is healthy, with the reasons.",
        INSPECT,
    ),
    "probe": Command("detent.cli.probe:probe", "Check one part, for health checks.", INSPECT),
    "stats": Command(
        "detent.cli.installation:stats",
        "Show throughput, success rate, durations, cost and queue age.",
        INSPECT,
    ),
    "state": Command(
        "detent.cli.installation:state",
        "Read and set the values of the installation's state.",
        INSPECT,
    ),
    "resources": Command(
        "detent.cli.resources:resources",
        "List resources, their holders and usage; put, drain, reset or delete one.",
        INSTALLATION,
    ),
    "workers": Command(
        "detent.cli.workers:workers",
        "List workers and the jobs they run; drain one.",
        INSTALLATION,
    ),
    "agents": Command("detent.cli.agents:agents", "List agents and their status.", INSTALLATION),
    "schedules": Command(
        "detent.cli.schedules:schedules",
        "List schedules; put, pause, trigger or delete one.",
        INSTALLATION,
    ),
    "projects": Command(
        "detent.cli.projects:projects",
        "List projects with their task counts and weights; create one; set quotas.",
        INSTALLATION,
    ),
    "intents": Command(
        "detent.cli.projects:intents",
        "List the known intents (task types) and where they are defined.",
        INSTALLATION,
    ),
    "limits": Command(
        "detent.cli.limits:limits",
        "List pauses, limits, quotas and weights; now, or at an earlier time.",
        INSTALLATION,
    ),
    "tokens": Command(
        "detent.cli.tokens:tokens",
        "List tokens; create or revoke one.",
        INSTALLATION,
    ),
    "sessions": Command(
        "detent.cli.sessions:sessions",
        "List the browser sessions of the dashboard; end one.",
        INSTALLATION,
    ),
    "users": Command(
        "detent.cli.users:users",
        "List the people who have signed in, with their roles; remove one.",
        INSTALLATION,
    ),
    "config": Command(
        "detent.cli.config:config",
        "Show each setting and where its value comes from.",
        INSTALLATION,
    ),
    "completion": Command(
        "detent.cli.completion:completion",
        "Print a completion script for bash, zsh or fish.",
        INSTALLATION,
    ),
    "notion": Command("detent.cli.notion:notion", "Copy tasks, runs and system state to Notion."),
    "webhooks": Command(
        "detent.cli.webhooks:webhooks",
        "List webhooks and their deliveries; put, delete, test or replay one.",
    ),
    "context": Command(
        "detent.cli.contexts:context",
        "Name gateways on other machines, and choose the one that commands use.",
        INSTALLATION,
    ),
    "login": Command(
        "detent.cli.login:login",
        "Sign in to the gateway at URL, and use it from now on.",
        INSTALLATION,
    ),
    "logout": Command(
        "detent.cli.login:logout",
        "Sign out of the gateway of a context, and remove the context.",
        INSTALLATION,
    ),
    "doctor": Command(
        "detent.cli.doctor:doctor",
        "Check this installation for problems and print how to fix them.",
        DATA,
    ),
    "verify": Command(
        "detent.cli.verify:verify",
        "Check the hash chain of the log, replay the log and compare every row with it.",
        DATA,
    ),
    "rebuild": Command(
        "detent.cli.verify:rebuild",
        "Rewrite all rows from the log, then verify them.",
        DATA,
    ),
    "export": Command(
        "detent.cli.export:export",
        "Write TASK with its subtasks, history, evidence and output to the archive FILE.",
        DATA,
    ),
    "import": Command(
        "detent.cli.export:import_",
        "Import an archive of `detent export`, or a queue file of JSON lines.",
        DATA,
    ),
    "gc": Command(
        "detent.cli.gc:gc",
        "Delete expired data: work, idempotency keys, output, blobs and local files.",
        DATA,
    ),
    "db": Command(
        "detent.cli.db:db",
        "Manage the database: schema, backup, restore, move, trim, clock.",
        DATA,
    ),
    "lifecycle": Command(
        "detent.cli.lifecycle:lifecycle",
        "Show, draw, check and simulate lifecycles; install, migrate and remove your own.",
        DATA,
    ),
    "demo": Command(
        "detent.cli.demo:demo",
        "Run a demo: a question, a budget, a failing resource, a killed worker and a review.",
        RUN,
    ),
    "mcp": Command(
        "detent.cli.mcp:mcp", "Serve operations as MCP tools on standard input and output."
    ),
}
