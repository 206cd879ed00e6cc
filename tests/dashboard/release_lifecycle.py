"""A lifecycle of seven states for browser tests: a job, a gate, a round limit and a timer."""

DOCUMENT = """
name = "release"
title = "A release that a person approves"
initial = "draft"
queues = ["task_queued", "task_sent_back"]
rounds = { events = ["task_sent_back"], limit = 2 }

[states.draft]
meaning = "written, not yet built"

[states.queued]
meaning = "waits for a worker"
phase = "queued"
column = "In work"

[states.building]
meaning = "a worker builds it"
phase = "working"
column = "In work"

[states.blocked]
meaning = "the build cannot continue"
phase = "blocked"

[states.approval]
meaning = "built; a person decides"
waits_for_person = true
column = "To approve"

[states.released]
meaning = "approved and released"
terminal = true
retention = "done"

[states.cancelled]
meaning = "given up"
terminal = true
retention = "cancelled"

[[rows]]
event = "task_created"
to = "draft"
who = ["gateway"]
why = "it was submitted"

[[rows]]
from = "draft"
event = "task_queued"
to = "queued"
who = ["person"]
why = "it is to be built"

[[rows]]
from = "queued"
event = "task_started"
to = "building"
who = ["worker"]
why = "a worker claimed its job"

[[rows]]
from = ["queued", "building"]
event = "task_blocked"
to = "blocked"
who = ["worker", "engine"]
why = "the build failed, or it has a question"

[[rows]]
from = "blocked"
event = "task_unblocked"
to = "queued"
who = ["engine", "keeper", "person"]
why = "the reason is gone"

[[rows]]
from = "building"
event = "task_ready"
to = "approval"
who = ["worker"]
why = "the build succeeded"

[[rows]]
from = "approval"
event = "task_approved"
to = "released"
who = ["person"]
why = "a person approved the build"

[[rows]]
from = "approval"
event = "task_sent_back"
to = "queued"
who = ["person"]
why = "it must be built again"

[[rows]]
from = ["draft", "queued", "building", "blocked", "approval"]
event = "task_cancelled"
to = "cancelled"
who = ["person", "engine", "keeper"]
why = "it is not wanted any more"

[[rules]]
when = "run_started"
in = ["queued"]
then = ["task_started"]

[[rules]]
when = "job_completed"
then = ["task_ready"]

[[rules]]
when = "job_failed"
then = ["task_blocked"]

[[rules]]
when = "job_cancelled"
then = ["task_cancelled"]

[[timers]]
in = "approval"
after = "{after}"
event = "task_cancelled"
"""


def document(*, version: int = 1, after: str = "3d") -> str:
    """The text of the document; a task is given up after this time without a decision."""
    return f"version = {version}\n{DOCUMENT.replace('{after}', after)}"
