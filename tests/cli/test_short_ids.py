"""Ids may be shortened to a beginning or an end that only one has, wherever a command takes one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from detent.cli.short_ids import only_match
from detent.errors import Invalid
from tests.operations.installation import OURS, local_installation

Run = Callable[..., Result]
IDS = ("alpha-one", "alpha-two", "beta-two", "beta")


@pytest.fixture
def work(data: Path) -> None:
    with local_installation(data) as place:
        for each in IDS:
            place.submit(id=each)
        (held,) = [each for each in place.claim() if each.job.task_id == "alpha-one"]
        place.complete(held)


def shown(run: Run, *arguments: str) -> str:
    found = json.loads(run(*arguments, "--json").stdout)
    (work,) = [found[kind] for kind in ("task", "job", "run") if kind in found]
    return str(work["id"])


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("alpha-o", "alpha-one"),
        ("one", "alpha-one"),
        ("beta", "beta"),
        ("beta-", "beta-two"),
        ("a-one-j1", "alpha-one-j1"),
        ("alpha-one-j1-", "alpha-one-j1-r1"),
        ("alpha-one-j1", "alpha-one-j1"),
    ],
)
def test_a_beginning_or_an_end_is_enough(run: Run, work: None, part: str, whole: str) -> None:
    assert shown(run, "show", part) == whole


def test_a_part_that_matches_several_is_refused_with_their_list(run: Run, work: None) -> None:
    by_part = {"two": ["alpha-two", "beta-two"], "alpha-": ["alpha-one", "alpha-two"]}
    for verb, part in (("show", "two"), ("accept", "alpha-"), ("events", "two"), ("cancel", "two")):
        error = json.loads(run(verb, part, "--json", code=2).stderr)
        assert (error["field"], error["allowed"]) == ("task_id", by_part[part])


@pytest.mark.parametrize(
    "command",
    [
        ("why", "one"),
        ("events", "one"),
        ("logs", "one"),
        ("steps", "one"),
        ("costs", "one"),
        ("at", "one"),
        ("tasks", "--parent", "one"),
        ("evidence", "one"),
        ("submit", "runQA", "--depends-on", "one"),
        ("raise", "one", "5"),
        ("accept", "one"),
        ("cancel", "ha-two", "eta-two"),
        ("tasks", "set", "one", "--title", "x"),
        ("export", "one", "one.zip"),
    ],
)
def test_every_command_takes_a_short_id(run: Run, work: None, command: tuple[str, ...]) -> None:
    run(*command)


def test_lists_are_filtered_by_a_short_id(run: Run, work: None) -> None:
    jobs = json.loads(run("jobs", "--task", "one", "--json").stdout)["items"]
    assert [job["id"] for job in jobs] == ["alpha-one-j1"]
    for option in (("--task", "one"), ("--job", "one-j1")):
        runs = json.loads(run("runs", *option, "--json").stdout)["items"]
        assert [each["id"] for each in runs] == ["alpha-one-j1-r1"]


def test_what_nothing_has_is_unknown(run: Run, work: None) -> None:
    error = json.loads(run("show", "gamma", "--json", code=3).stderr)
    assert error["code"] == "unknown_task"


def test_many_candidates_are_cut_and_others_projects_stay_hidden(data: Path) -> None:
    with local_installation(data) as place:
        for number in range(12):
            place.submit(id=f"same-{number:02}", project="theirs")
        place.submit(id="same-own", project="ours")
        found = place.call("find_ids", kind="task", part="same-")
        assert (len(found["items"]), found["more"]) == (10, True)
        assert place.call("find_ids", OURS, kind="task", part="same-") == {
            "items": ["same-own"],
            "more": False,
        }


def test_the_id_of_a_session_is_shortened_too() -> None:
    ids = ("alpha", "albert", "beta")
    assert [only_match("session", part, ids) for part in ("alp", "ta", "alpha", "x")] == [
        "alpha",
        "beta",
        "alpha",
        None,
    ]
    with pytest.raises(Invalid, match="more than one session: alpha, albert"):
        only_match("session", "al", ids)
