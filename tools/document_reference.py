"""Writes the reference of lifecycle documents from the types and tables that read them.

`tools.generate` writes what PAGES names; nothing here touches a file.
"""

from collections.abc import Callable, Mapping
from typing import Any

from detent.kernel import lifecycle_document as document
from detent.kernel.outcome_rules import EVENTS, PREDICATES
from detent.kernel.task_events import MEANINGS
from detent.kernel.task_lifecycle import EntryPoint, Phase, Trigger
from detent.task_lifecycles.document_file import LIMIT_BYTES
from tools.reference import table

INTRODUCTION = f"""\
# Lifecycle documents

A lifecycle of tasks is a TOML document of at most {LIMIT_BYTES // 1024} KiB. How to write and
install one: [Define your own lifecycle](../howto/own-lifecycle.md). The documents of the lifecycles
that are a part of detent: `board.toml` and `review.toml` in the package `detent.task_lifecycles`.

Names are lower-case snake_case. Unknown fields are errors. At most {document.MAX_STATES} states,
{document.MAX_ROWS} rows, {document.MAX_RULES} rules and {document.MAX_TIMERS} timers.
"""
DOCUMENT = {
    "name": "the name of the lifecycle",
    "version": "the version, 1 without one; a change of the document needs a higher one",
    "title": "a title for people",
    "initial": "the state of a new task",
    "states": "a table for each state, see below",
    "rows": "the transitions, see below",
    "rules": "what follows when something happens to the job, see below",
    "timers": "events after a time in a state, see below",
    "rounds": "`events` that count a round, and the `limit` after which they are refused",
    "queues": "the events that create a new job; `task_queued` without this field",
    "retry": "the default retry policy of its jobs",
    "max_budget_usd": "the budget of a task that has none of its own",
    "default_for": "the entry points that use it without a name: "
    + ", ".join(f"`{each}`" for each in EntryPoint),
    "counterpart": "the states of another lifecycle that mean the same",
    "migrate": "for a state that this version no longer has, the state of its tasks",
}
STATE = {
    "meaning": "what the state means, for people",
    "phase": "what the job does in it, see below; `idle` without this field",
    "terminal": "whether no row leaves it",
    "waits_for_person": "whether it is listed in the inbox",
    "retention": "how the work ended: `done`, `failed` or `cancelled`; decides how long it is kept",
    "column": "the title of its column on the board",
    "look": "how it is drawn, if not by its phase",
}
ROW = {
    "from": "one state or several; without it, the row creates the task",
    "event": "the event, one of detent or one of your own that begins with `task_`",
    "to": "the state after it",
    "who": "who sends it: "
    + ", ".join(f"`{each}`" for each in document.SENDERS)
    + ", or `person:NAME` for an event of your own",
    "why": "why, for people",
    "extension": "whether the diagram shows the row dashed",
}
RULE = {
    "when": "what happened, see triggers",
    "in": "the states of the task in which the rule applies; all without it",
    "if": "predicates that must all hold",
    "then": "the events that the task gets, in order; none if it is empty",
}
TIMER = {
    "in": "the state",
    "after": "the time since the task entered it: `30s`, `15m`, `12h`, `3d`",
    "event": "the event that the keeper sends: one of the document, or `task_cancelled`",
}
PHASES = {
    Phase.IDLE: "there is no live job",
    Phase.QUEUED: "the job waits for a worker",
    Phase.WORKING: "a worker runs the job, or the job waits by itself",
    Phase.BLOCKED: "the job cannot continue; the task has the reason",
}
TRIGGERS = {
    Trigger.RUN_STARTED: "a worker started a run of the job",
    Trigger.JOB_COMPLETED: "the job completed",
    Trigger.JOB_FAILED: "the job failed and no attempt is left",
    Trigger.JOB_CANCELLED: "the job was cancelled",
    Trigger.SUBTASKS_SETTLED: "the last open subtask ended",
}


def page() -> str:
    """The page: the fields of each part, then phases, triggers, predicates and events."""
    predicates = {name: (check.__doc__ or "").rstrip(".") for name, check in PREDICATES.items()}
    emitted = {name: meaning for name, meaning in MEANINGS.items() if name in EVENTS}
    written = {name: meaning for name, meaning in MEANINGS.items() if name not in EVENTS}
    sections = {
        "Fields of the document": _fields(DOCUMENT, document.DOCUMENT),
        "Fields of a state": _fields(STATE, document.STATE),
        "Fields of a row": _fields(ROW, document.ROW),
        "Fields of a rule": _fields(RULE, document.RULE),
        "Fields of a timer": _fields(TIMER, document.TIMER),
        "Phases": _named(PHASES),
        "Triggers": _named(TRIGGERS),
        "Predicates": _named(predicates),
        "Events that rules may emit": _named(emitted),
        "Other events of detent": _named(written),
    }
    return "\n".join(
        [INTRODUCTION, *(f"## {heading}\n\n{text}" for heading, text in sections.items())]
    )


def _fields(meanings: Mapping[str, str], known: tuple[str, ...]) -> str:
    """The table of the fields; one without a meaning is a KeyError here."""
    return _named({name: meanings[name] for name in known})


def _named(meanings: Mapping[Any, str]) -> str:
    return table(("name", "meaning"), [(f"`{name}`", text) for name, text in meanings.items()])


PAGES: Mapping[str, Callable[[], str]] = {"docs/reference/lifecycle-documents.md": page}
