"""Each deliberately broken variant of Slack is noticed by its check."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from detent import failpoints
from detent.failpoints import Action, Armed, Injected
from tests.integrations.slack_world import ADA, SlackWorld, slack_world
from verification.mutant import applied
from verification.slack.slack_server import Posted
from verification.slack_mutants import MUTANTS


def only_signed_requests_count(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    headers, body = world.server.signed(world.server.press(ADA, world.only(), "accept"))
    forged = {**headers, "X-Slack-Signature": "v0=" + "0" * 64}
    assert world.replies.receive(forged, body.decode())[0] == 401
    world.settle()
    assert world.state(task_id) == "ready"


def only_recent_requests_count(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    payload = world.server.press(ADA, world.only(), "accept")
    assert world.send(payload, at=time.time() - 301)[0] == 401
    assert world.state(task_id) == "ready"


def a_click_counts_once(world: SlackWorld) -> None:
    world.review()
    world.sync()
    payload = world.server.press(ADA, world.only(), "accept")
    assert [world.send(payload)[0] for _ in range(2)] == [200, 200]
    assert world.server.notices == [], "the second delivery was not tried"


def only_the_version_that_was_shown_counts(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    shown = Posted(**vars(world.only()))
    world.call("edit_task", task_id=task_id, title="Changed")
    world.click(ADA, "accept", shown)
    assert world.state(task_id) == "ready"


def a_budget_is_raised_once(world: SlackWorld) -> None:
    """The process ends after the click was carried out, and Slack delivers it again.

    The process has not recorded the click, so that only the version of the task stops it.
    """
    world.spent()
    world.sync()
    world.click(ADA, "raise:1")
    payload = world.server.submit(ADA, "4.50")
    failpoints.armed["slack.applied"] = Armed(Action.RAISE, 1)
    for _ in range(2):
        world.send(payload)
    with world.core.store.read() as view:
        names = [each.name for each in view.events(0, 1_000)]
    assert names.count("budget_raised") == 1


def a_message_is_posted_once(world: SlackWorld) -> None:
    world.review()
    failpoints.armed["slack.posted"] = Armed(Action.RAISE, 1)
    with suppress(Injected):
        world.sync()
    world.keeper = world.new_process()
    world.sync()
    assert len(world.shown()) == 1


CHECKS: Sequence[tuple[str, Callable[[SlackWorld], None]]] = (
    ("unsigned-request-is-accepted", only_signed_requests_count),
    ("old-request-is-accepted", only_recent_requests_count),
    ("repeated-click-is-accepted", a_click_counts_once),
    ("stale-version-is-accepted", only_the_version_that_was_shown_counts),
    ("stale-version-is-accepted", a_budget_is_raised_once),
    ("message-is-posted-again-after-a-crash", a_message_is_posted_once),
)


@pytest.mark.parametrize(("name", "check"), CHECKS)
def test_a_mutant_is_noticed(
    name: str, check: Callable[[SlackWorld], None], tmp_path: Path
) -> None:
    for directory in ("right", "broken"):
        (tmp_path / directory).mkdir()
    with slack_world(tmp_path / "right") as world:
        check(world)

    with (
        slack_world(tmp_path / "broken") as world,
        applied(MUTANTS[name]),
        pytest.raises(AssertionError),
    ):
        check(world)


def test_every_mutant_has_a_check() -> None:
    assert {name for name, _ in CHECKS} == set(MUTANTS)
