"""The rules of the lint: one planted defect each, and none in correct documents."""

import re
from pathlib import Path

import pytest

from detent.kernel import lifecycle_lint
from detent.kernel.lifecycle_lint import Flaw
from detent.lifecycle_search.properties import PROPERTIES
from detent.task_lifecycles import SHIPPED
from detent.task_lifecycles.document_file import located
from tests.lifecycles.document_edits import (
    DOCUMENTS,
    RELEASE,
    changed,
    read,
    row,
    rule,
    state,
    timer,
    without_rows,
)

BOARD = (Path(lifecycle_lint.__file__).parents[2] / "task_lifecycles" / "board.toml").read_text(
    encoding="utf-8"
)

COMPLETED = rule("job_completed", "task_ready")
FAILED = rule("job_failed", "task_blocked")
CANCELLED = rule("job_cancelled", "task_cancelled")
APPROVED = row("approval", "task_approved", "released").strip()

#: By name of the rule and field of the flaw: a document with that defect.
DEFECTS = [
    ("unknown-state", "initial", changed(('initial = "draft"', 'initial = "moon"'))),
    ("unknown-state", "rows[6].to", changed(('to = "released"', 'to = "moon"'))),
    ("unknown-state", "rows[1].from", changed(('from = "draft"', 'from = "moon"'))),
    ("unknown-state", "rules[0].in", changed(('in = ["queued"]', 'in = ["moon"]'))),
    ("unknown-state", "timers[0].in", changed(('in = "approval"', 'in = "moon"'))),
    ("unknown-state", "migrate.old", RELEASE + '\n[migrate]\nold = "moon"\n'),
    ("ambiguous-row", "rows[9].event", RELEASE + row("approval", "task_approved", "cancelled")),
    ("creation", "rows", without_rows("task_created")),
    ("creation", "rows[0]", changed(('to = "draft"', 'to = "approval"'))),
    ("creation", "rows[9].event", RELEASE + row("approval", "task_created", "draft")),
    (
        "unreachable-state",
        "states.moon",
        RELEASE + state("moon") + row("moon", "task_cancelled", "cancelled"),
    ),
    ("dead-state", "states.moon", RELEASE + state("moon") + row("draft", "task_x", "moon")),
    ("no-end", "states", RELEASE.replace("terminal = true\n", "")),
    (
        "no-end",
        "states.moon",
        RELEASE
        + state("moon")
        + row("draft", "task_x", "moon")
        + row("moon", "task_cancelled", "cancelled"),
    ),
    ("terminal-retention", "states.released", changed(('retention = "done"\n', ""))),
    (
        "done-terminal",
        "states.released",
        changed(('terminal = true\nretention = "done"', 'retention = "done"')),
    ),
    (
        "terminal-phase",
        "states.released.phase",
        changed(('retention = "done"', 'retention = "done"\nphase = "working"')),
    ),
    (
        "terminal-phase",
        "states.building.phase",
        changed(('phase = "working"', 'phase = "working"\nretention = "done"')),
    ),
    (
        "terminal-waits",
        "states.released.waits_for_person",
        changed(('retention = "done"', 'retention = "done"\nwaits_for_person = true')),
    ),
    ("terminal-left", "rows[9].from", RELEASE + row("released", "task_reopened", "draft")),
    ("event-name", "rows[6].event", changed(('"task_approved"', '"approved"'))),
    ("event-name", "rows[6].event", changed(('"task_approved"', '"task_charged"'))),
    ("event-name", "rows[6].event", changed(('"task_approved"', '"task_migrated"'))),
    (
        "no-sender",
        "rows[6].who",
        changed(
            (APPROVED.split("why")[0], APPROVED.replace('"person"', '"worker"').split("why")[0])
        ),
    ),
    ("no-sender", "rows[9].who", RELEASE + row("building", "task_completed", "released", "worker")),
    (
        "named-sender",
        "rows[9].who",
        RELEASE + row("approval", "task_accepted", "released", "person:chief"),
    ),
    ("rule-event", "rules[1].then", changed(('then = ["task_ready"]', 'then = ["task_accepted"]'))),
    ("rule-event", "rules[1].then", changed(('then = ["task_ready"]', 'then = ["task_moon"]'))),
    (
        "rule-event",
        "rules[1].then",
        changed(('then = ["task_ready"]', 'then = ["task_timed_out"]'))
        + row("building", "task_timed_out", "approval", "worker"),
    ),
    (
        "timer-event",
        "timers[0].event",
        RELEASE.replace('"3d"\nevent = "task_cancelled"', '"3d"\nevent = "task_accepted"')
        + row("approval", "task_accepted", "released"),
    ),
    (
        "phase",
        "rows[2].to",
        changed(
            ('event = "task_started"\nto = "building"', 'event = "task_started"\nto = "approval"')
        ),
    ),
    (
        "phase",
        "rows[3].to",
        changed(
            ('event = "task_blocked"\nto = "blocked"', 'event = "task_blocked"\nto = "approval"')
        ),
    ),
    (
        "phase",
        "rows[4].to",
        changed(
            ('event = "task_unblocked"\nto = "queued"', 'event = "task_unblocked"\nto = "draft"')
        ),
    ),
    ("phase", "rows[7].to", changed((', "task_sent_back"]', "]"))),
    ("phase", "rows[6].to", changed(('to = "released"', 'to = "building"'))),
    ("queues", "queues", changed(('"task_queued", ', '"task_queued", "task_ready", '))),
    ("queues", "queues", changed(('"task_queued", ', '"task_queued", "task_moon", '))),
    ("live-sender", "rows[9].from", RELEASE + row("building", "task_stopped", "released")),
    ("live-sender", "rows[9].from", RELEASE + row("blocked", "task_queued", "queued")),
    (
        "live-sender",
        "timers[1].in",
        RELEASE + timer("queued", "task_late") + row("queued", "task_late", "released", "keeper"),
    ),
    (
        "needed-row",
        "states.building",
        changed(('from = ["queued", "building"]', 'from = "queued"')),
    ),
    ("needed-row", "states.blocked", without_rows("task_unblocked")),
    (
        "no-cancel",
        "states.building",
        changed(('"queued","building","blocked"', '"queued","blocked"')),
    ),
    ("no-cancel", "states.approval", changed((',"approval"]', "]"))),
    ("cancel-end", "rows[8].to", changed(('to = "cancelled"', 'to = "draft"'))),
    ("rule-row", "rules[2].then", changed(('from = ["queued", "building"]', 'from = "building"'))),
    ("rule-row", "rules[0].then", changed(('in = ["queued"]\n', ""))),
    ("rule-stays", "rules[1].then", changed(('then = ["task_ready"]', "then = []"))),
    ("no-rule", "rules", changed((COMPLETED, ""))),
    ("no-rule", "rules", changed((FAILED, ""))),
    ("no-rule", "rules", changed((CANCELLED, ""))),
    ("no-rule", "rules", changed(('when = "run_started"', 'when = "subtasks_settled"'))),
    (
        "no-rule",
        "rules",
        changed((COMPLETED, rule("job_completed", "task_ready", 'if = ["is_subtask"]\n'))),
    ),
    (
        "no-rule",
        "rules",
        changed(
            (
                COMPLETED,
                rule("job_completed", "task_blocked", 'if = ["subtasks_are_open"]\n')
                + "\n"
                + COMPLETED,
            )
        ),
    ),
    (
        "unreached-rule",
        "rules[2]",
        changed((COMPLETED, COMPLETED + "\n" + rule("job_completed", "task_ready"))),
    ),
    (
        "unreached-rule",
        "rules[1].in",
        changed(
            (
                COMPLETED,
                rule("job_completed", "task_approved", 'in = ["approval"]\n') + "\n" + COMPLETED,
            )
        ),
    ),
    ("timer-row", "timers[1].event", RELEASE + timer("draft", "task_approved")),
    ("timer-twice", "timers[1].after", RELEASE + timer("approval", "task_approved", "72h")),
    ("rounds-uncounted", "rounds.limit", changed(('events = ["task_sent_back"], ', ""))),
    (
        "rounds-uncounted",
        "rounds.events",
        changed(('events = ["task_sent_back"]', 'events = ["task_x"]')),
    ),
    (
        "rounds-uncounted",
        "rounds.events",
        changed(('events = ["task_sent_back"]', 'events = ["task_ready"]')),
    ),
    ("rounds-sender", "timers[1].event", RELEASE + timer("approval", "task_sent_back")),
    (
        "rounds-sender",
        "rules[1].if",
        changed(
            (
                COMPLETED,
                rule("job_completed", "task_sent_back", 'if = ["result_is_false"]\n')
                + "\n"
                + COMPLETED,
            )
        )
        + row("building", "task_sent_back", "queued", "worker"),
    ),
    (
        "acceptance",
        "rules",
        RELEASE + row("approval", "task_accepting", "queued"),
    ),
    (
        "endless-cycle",
        "rules[1].then",
        changed(
            ('"task_queued", ', '"task_queued", "task_again", '),
            (
                COMPLETED,
                rule("job_completed", "task_again", 'if = ["result_is_false"]\n')
                + "\n"
                + COMPLETED,
            ),
        )
        + row("building", "task_again", "queued", "worker"),
    ),
    (
        "endless-cycle",
        "timers[1].event",
        RELEASE
        + timer("draft", "task_x")
        + timer("approval", "task_y")
        + row("draft", "task_x", "approval", "keeper")
        + row("approval", "task_y", "draft", "keeper"),
    ),
    (
        "people-loop",
        "rows[9].to",
        RELEASE + row("draft", "task_x", "approval") + row("approval", "task_y", "draft"),
    ),
    ("people-loop", "rows[9].to", RELEASE + row("draft", "task_edited_by_person", "draft")),
    (
        "default",
        "default_for",
        without_rows("task_queued", 'default_for = ["add"]\n' + RELEASE),
    ),
    ("counterpart", "counterpart.states", RELEASE + '\n[counterpart]\nlifecycle = "board"\n'),
    (
        "counterpart",
        "counterpart.states.moon",
        changed(('done = "completed"', 'done = "completed"\nmoon = "completed"'), text=BOARD),
    ),
]


@pytest.mark.parametrize(("name", "field", "text"), DEFECTS)
def test_a_planted_defect_is_found(name: str, field: str, text: str) -> None:
    found = lifecycle_lint.flaws(read(text))
    assert (name, field) in [(flaw.rule, flaw.field) for flaw in found], found
    assert all(flaw.text.endswith(".") for flaw in found)
    assert all(each["line"] > 1 or each["field"] == "default_for" for each in located(text, found))


def test_every_rule_has_a_defect() -> None:
    sources = Path(lifecycle_lint.__file__).parent.glob("*.py")
    named = {
        name
        for source in sources
        for name in re.findall(r'Flaw\(\s*"([a-z-]+)"', source.read_text(encoding="utf-8"))
    }
    assert named == {name for name, _, _ in DEFECTS} | {"state-meaning", "migrate"}
    page = Path(__file__).parents[2] / "docs/reference/lifecycle-checks.md"
    listed = re.findall(r"^\| `([a-z-]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted([*named, *PROPERTIES])


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_lifecycles_have_no_flaws(name: str) -> None:
    assert lifecycle_lint.flaws(SHIPPED[name]) == []
    assert lifecycle_lint.conflicts(SHIPPED[name], SHIPPED) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_correct_documents_have_no_flaws(name: str) -> None:
    lifecycle = read(DOCUMENTS[name])
    assert lifecycle_lint.flaws(lifecycle) == []
    assert lifecycle_lint.conflicts(lifecycle, SHIPPED) == []


# ---- other lifecycles ------------------------------------------------------------------------

CONFLICTS = [
    (
        "state-meaning",
        "states.blocked",
        changed(('phase = "blocked"', 'phase = "blocked"\nwaits_for_person = true')),
    ),
    ("counterpart", "counterpart.lifecycle", RELEASE + '\n[counterpart]\nlifecycle = "moon"\n'),
    (
        "counterpart",
        "counterpart.states.draft",
        RELEASE + '\n[counterpart]\nlifecycle = "board"\nstates = { draft = "moon" }\n',
    ),
    (
        "counterpart",
        "counterpart.failed.error",
        RELEASE + '\n[counterpart]\nlifecycle = "board"\nfailed = { error = "moon" }\n',
    ),
]


@pytest.mark.parametrize(("name", "field", "text"), CONFLICTS)
def test_a_planted_conflict_is_found(name: str, field: str, text: str) -> None:
    found = lifecycle_lint.conflicts(read(text), SHIPPED)
    assert (name, field) in [(flaw.rule, flaw.field) for flaw in found], found


def test_two_lifecycles_cannot_be_one_default() -> None:
    first = read('default_for = ["submit"]\n' + RELEASE)
    second = read('default_for = ["submit"]\n' + changed(('name = "release"', 'name = "other"')))
    found = lifecycle_lint.conflicts(second, {**SHIPPED, first.id: first})
    assert [(flaw.rule, flaw.field) for flaw in found] == [("default", "default_for")]


def next_version(migrate: str = "") -> list[Flaw]:
    """The conflicts of a second version in which `approval` and `building` have other names."""
    text = RELEASE.replace("approval", "signing").replace("building", "assembling")
    second = changed(('name = "release"', 'name = "release"\nversion = 2'), text=text)
    known = {**SHIPPED, "release": read(RELEASE)}
    return lifecycle_lint.conflicts(read(second + migrate), known)


@pytest.mark.parametrize(
    ("migrate", "fields"),
    [
        ("", ["migrate", "migrate"]),
        ('[migrate]\nbuilding = "assembling"\n', ["migrate"]),
        ('[migrate]\nbuilding = "queued"\napproval = "signing"\n', ["migrate.building"]),
        (
            '[migrate]\nbuilding = "assembling"\napproval = "signing"\nmoon = "draft"\n',
            ["migrate.moon"],
        ),
        ('[migrate]\nbuilding = "assembling"\napproval = "signing"\n', []),
    ],
)
def test_a_new_version_strands_no_task(migrate: str, fields: list[str]) -> None:
    found = next_version(f"\n{migrate}")
    assert [flaw.field for flaw in found] == fields
    assert {flaw.rule for flaw in found} <= {"migrate"}
