"""`detent inbox` with filters and groups, `detent assign` and `detent snooze`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.operations.installation import local_installation

Run = Callable[..., Result]


def submitted(data: Path) -> str:
    with local_installation(data) as place:
        return place.submit()


def test_the_inbox_is_filtered_grouped_and_counted(run: Run, data: Path) -> None:
    with local_installation(data) as place:
        for title, priority, project in (("Low", "P3", "web"), ("High", "P0", "shop")):
            place.submit(title=title, priority=priority, project=project)
            place.complete(place.claim()[0])
    listed = json.loads(run("inbox", "--json").stdout)
    high, low = (row["id"] for row in listed["items"])
    assert [row["title"] for row in listed["items"]] == ["High", "Low"]
    assert run("assign", low, "ada").stdout == f"{low}: ready (assigned)\n"
    mine = json.loads(run("inbox", "--assigned", "ada", "--kind", "review", "--json").stdout)
    assert [row["id"] for row in mine["items"]] == [low]
    grouped = run("inbox", "--group", "person").stdout
    assert grouped.index("no person (1)") < grouped.index("ada (1)")
    assert grouped.endswith("2 waiting.\n")
    assert run("snooze", high, "2h").stdout.startswith(f"{high}: snoozed until ")
    hidden = run("inbox", "--list").stdout
    assert high not in hidden
    assert hidden.endswith("1 waiting. 1 snoozed: detent inbox --snoozed.\n")
    assert high in run("inbox", "--snoozed").stdout
    assert run("snooze", high, "--off").stdout == f"{high}: in your inbox\n"
    assert run("assign", low, "--off").stdout == f"{low}: ready (unassigned)\n"
    assert run("inbox", "--mine").stdout == "Nothing waits for a person.\n"


@pytest.mark.parametrize("line", ["assign {id}", "snooze {id}", "snooze {id} 2h --off"])
def test_an_assignment_or_snooze_needs_one_value(run: Run, data: Path, line: str) -> None:
    task_id = submitted(data)
    refused = run(*line.format(id=task_id).split(), code=2)
    assert "Give a" in refused.stderr


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("snooze {id} yesterday", "until must be a time with a time zone"),
        ("assign {id} two/words", "person must be a name"),
        ("inbox --kind other", "kind must be one of budget, confirmation"),
    ],
)
def test_a_bad_value_says_what_is_allowed(run: Run, data: Path, line: str, why: str) -> None:
    task_id = submitted(data)
    assert why in run(*line.format(id=task_id).split(), code=2).stderr
