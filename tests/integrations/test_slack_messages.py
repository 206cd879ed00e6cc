"""Messages in Slack: one per item and channel, updated when it changes, never posted twice."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from detent import failpoints
from detent.errors import Misconfigured
from detent.failpoints import Action, Armed, Injected
from detent.integrations.slack import slack_messages
from detent.integrations.slack.slack_api import TokenRefused
from detent.settings import Settings
from tests.integrations.slack_world import ADA, OPS, WEB, SlackWorld, slack_world
from verification.slack.slack_server import Reply

ERROR = Reply(500, {"ok": False, "error": "internal_error"})


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SlackWorld]:
    with slack_world(tmp_path) as made:
        yield made


def status(world: SlackWorld) -> Any:
    with world.core.store.read() as view:
        found = view.rows("system_state").get(slack_messages.STATUS)
        return None if found is None else found[slack_messages.MESSAGES]


def rows(world: SlackWorld) -> dict[str, Any]:
    with world.core.store.read() as view:
        return dict(view.rows_under("slack", "message:"))


# ---- which items -------------------------------------------------------------------------------


def test_every_kind_of_item_has_a_message_with_its_legal_actions(world: SlackWorld) -> None:
    world.question(options=["eu", "us"], other=True)
    world.review(title="Fix")
    world.spent()
    world.submit(project="web", title="Broken", options={"retry": {"max_attempts": 1}})
    world.fail()
    world.sync()
    found = {
        each.text: [name.removeprefix("detent:") for name in each.buttons] for each in world.shown()
    }
    assert found == {
        "Question: Deploy": ["option:1", "option:2", "answer", "stop"],
        "Review: Fix": ["accept", "reject", "stop"],
        "Budget used up: build": ["raise:1", "stop"],
        "Failed: Broken": [],
    }
    assert re.search("`detent retry [0-9a-z]+`", world.shown()[-1].shown)
    assert '"text": "it broke"' in world.shown()[-1].shown


def test_only_items_of_the_channel_are_posted(tmp_path: Path) -> None:
    channels = (f"{WEB} project=web intent=build kind=review", f"{OPS} kind=question,failure")
    with slack_world(tmp_path, slack_channels=channels) as world:
        world.question()
        world.review()
        other = world.submit(project="ops")
        world.complete()
        world.sync()
        assert [each.text for each in world.shown(WEB)] == ["Review: build"]
        assert [each.text for each in world.shown(OPS)] == ["Question: Deploy"]
        assert world.state(other) == "ready"


def test_a_question_of_a_job_is_posted_and_settled(tmp_path: Path) -> None:
    with slack_world(tmp_path, slack_channels=(OPS,)) as world:
        job = world.call("submit_job", intent="build")["id"]
        world.suspend(detail={"text": "May I?", "options": ["Allow", "Reject"]})
        world.sync()
        assert list(world.only(OPS).buttons) == ["detent:option:1", "detent:option:2"]
        assert world.click(ADA, "option:2", world.only(OPS)) == 200
        assert world.server.notices == []
        world.sync()
        assert "*Answered* by ada: Reject" in world.only(OPS).shown
        assert world.call("show_job", job_id=job)["state"] == "queued"


def test_without_a_way_to_receive_clicks_there_are_no_buttons(tmp_path: Path) -> None:
    silent = {"slack_app_token": "", "slack_signing_secret": ""}
    more = {**silent, "slack_dashboard_url": "https://detent.example/"}
    with slack_world(tmp_path, **more) as world:
        task_id = world.review()
        world.sync()
        (button,) = world.only().buttons.values()
        assert button["url"] == f"https://detent.example/tasks/{task_id}"


# ---- changes -----------------------------------------------------------------------------------


def test_a_message_follows_the_version_of_its_task(world: SlackWorld) -> None:
    task_id = world.review(title="Fix")
    world.sync()
    before = world.only().buttons["detent:accept"]["value"]
    world.call("edit_task", task_id=task_id, title="Fix it")
    world.sync()
    found = world.only()
    assert (found.text, found.edits) == ("Review: Fix it", 1)
    assert found.buttons["detent:accept"]["value"] != before
    world.sync()
    assert found.edits == 1, "nothing has changed since"


@pytest.mark.parametrize(
    ("settle", "shown"),
    [
        (lambda w, t: w.call("accept_task", task_id=t, comment="ok"), "*Accepted* by owner: ok"),
        (lambda w, t: w.call("reject_task", task_id=t, comment="no"), "*Rejected* by owner: no"),
        (lambda w, t: w.call("cancel_task", task_id=t), "*Stopped* by owner"),
        (
            lambda w, t: (w.call("cancel_task", task_id=t), w.call("delete_task", task_id=t)),
            "*Stopped* by owner",
        ),
    ],
)
def test_what_is_settled_elsewhere_is_shown(
    world: SlackWorld, settle: Callable[[SlackWorld, str], Any], shown: str
) -> None:
    task_id = world.review()
    world.sync()
    settle(world, task_id)
    world.sync()
    found = world.only()
    assert shown in found.shown
    assert found.buttons == {}
    assert rows(world) == {}


def test_each_wait_of_a_task_has_its_own_message(world: SlackWorld) -> None:
    task_id = world.question()
    world.sync()
    world.call("answer_task", task_id=task_id, answer="eu")
    world.complete()
    world.sync()
    assert [each.text for each in world.shown()] == ["Answered by owner", "Review: Deploy"]


def test_a_message_that_was_deleted_in_slack_is_not_posted_again(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.server.messages.clear()
    world.call("edit_task", task_id=task_id, title="Again")
    world.sync()
    world.call("edit_task", task_id=task_id, title="And again")
    world.sync()
    assert world.shown() == []
    world.call("accept_task", task_id=task_id)
    world.sync()
    assert (world.shown(), rows(world)) == ([], {})


# ---- once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["slack.reserved", "slack.posted", "slack.updated"])
def test_a_message_exists_once_wherever_the_process_ends(world: SlackWorld, point: str) -> None:
    task_id = world.review(title="Fix")
    if point == "slack.updated":
        world.sync()
        world.call("edit_task", task_id=task_id, title="Fixed")
    failpoints.armed[point] = Armed(Action.RAISE, 1)
    with pytest.raises(Injected):
        world.sync()
    assert len(world.shown()) == (0 if point == "slack.reserved" else 1)
    world.keeper = world.new_process()
    world.sync()
    assert (
        world.only().buttons["detent:accept"]["value"]
        == f'["{task_id}",{world.task(task_id)["version"]},null,null]'
    )


@pytest.mark.parametrize("settled", [False, True])
def test_a_lost_response_posts_no_second_message(world: SlackWorld, settled: bool) -> None:
    task_id = world.review(title="Fix")

    def lost(method: str) -> None:
        if method == "chat.postMessage":
            raise ConnectionResetError

    world.server.carried_out = lost
    world.sync()
    world.server.carried_out = lambda _: None
    assert len(world.shown()) == 1
    assert "chat.postMessage: no response" in status(world)["error"]
    if settled:
        world.call("accept_task", task_id=task_id)
    world.later(slack_messages.PAUSE_US / 1e6)
    world.sync()
    expected = "Accepted by owner" if settled else "Review: Fix"
    assert (world.only().text, status(world)) == (expected, None)


def test_a_message_of_a_process_that_no_longer_leads_is_removed(world: SlackWorld) -> None:
    world.review()
    late = world.messages()

    def meanwhile(method: str) -> None:
        if method == "chat.postMessage":
            world.server.carried_out = lambda _: None
            with world.core.store.read() as view:
                (name, row), *_ = view.rows_under("slack", "message:").items()
            world.core.engine.transaction(
                lambda tx: tx.put_rows("slack", {name: {**row, "ts": "1.000001", "mark": "x"}})
            )

    world.server.carried_out = meanwhile
    late.run()
    assert world.shown() == [], "its own message was deleted"
    assert rows(world)[next(iter(rows(world)))]["ts"] == "1.000001"


def test_the_search_covers_several_pages(
    world: SlackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.integrations.slack.slack_api.PAGE_SIZE", 2)
    for _ in range(5):
        world.review()
    world.sync()
    kept = rows(world)
    first = min(kept, key=lambda name: kept[name]["ts"])
    forgotten = {**kept[first], "ts": None, "mark": ""}
    world.core.engine.transaction(lambda tx: tx.put_rows("slack", {first: forgotten}))
    assert not world.messages().run()
    assert len(world.shown()) == 5
    assert world.server.called.count("conversations.history") == 3


# ---- refusals ----------------------------------------------------------------------------------


def test_a_rate_limit_delays_and_loses_nothing(world: SlackWorld) -> None:
    for at in range(35):
        world.review(title=f"Fix {at}")
    world.sync()
    assert len(world.shown()) == 30, "the burst that Slack allows"
    asked = len(world.server.called)
    world.sync()
    assert len(world.server.called) == asked, "nothing is sent before Slack accepts it again"
    for _ in range(5):
        world.later(1)
        world.sync()
    assert len({each.text for each in world.shown()}) == len(world.shown()) == 35


def test_the_time_that_slack_names_is_kept(world: SlackWorld) -> None:
    world.review()
    limited = Reply(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "7"})
    world.server.replies["chat.postMessage"] = deque([limited])
    world.sync()
    world.later(6)
    world.sync()
    assert world.shown() == []
    world.later(1)
    world.sync()
    assert len(world.shown()) == 1


def test_a_revoked_token_is_reported_and_replaced(world: SlackWorld) -> None:
    world.review()
    world.server.revoked.add(world.server.bot_token)
    world.sync()
    assert "token_revoked" in status(world)["error"]
    assert "slack.bot_token" in status(world)["hint"]
    with pytest.raises(TokenRefused):
        world.messages().api.who_am_i()
    world.server.revoked.clear()
    world.later(slack_messages.PAUSE_US / 1e6)
    world.sync()
    assert (len(world.shown()), status(world)) == (1, None)


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        ({"member": False}, "not_in_channel"),
        ({"archived": True}, "is_archived"),
        (None, "channel_not_found"),
    ],
)
def test_a_refused_channel_does_not_stop_the_others(
    tmp_path: Path, fault: dict[str, bool] | None, hint: str
) -> None:
    with slack_world(tmp_path, slack_channels=(WEB, OPS)) as world:
        del world.server.channels[WEB]
        if fault is not None:
            world.server.add_channel(WEB, **fault)
        world.review()
        world.sync()
        assert (len(world.shown(WEB)), len(world.shown(OPS))) == (0, 1)
        assert hint in status(world)["error"]
        world.server.add_channel(WEB)
        world.later(slack_messages.PAUSE_US / 1e6)
        world.sync()
        assert (len(world.shown(WEB)), len(world.shown(OPS)), status(world)) == (1, 1, None)


def test_a_refused_message_does_not_stop_the_others(world: SlackWorld) -> None:
    first = world.review(title="One")
    world.review(title="Two")
    refused = Reply(200, {"ok": False, "error": "invalid_blocks"})
    world.server.replies["chat.postMessage"] = deque([refused])
    world.sync()
    assert [each.text for each in world.shown()] == ["Review: Two"]
    world.call("edit_task", task_id=first, title="Three")
    world.sync()
    assert [each.text for each in world.shown()] == ["Review: Two", "Review: Three"]


def test_a_channel_that_is_removed_from_the_settings_is_forgotten(world: SlackWorld) -> None:
    world.review()
    world.sync()
    world.core.settings = Settings(
        slack_bot_token=world.core.settings.slack_bot_token,
        slack_url=world.core.settings.slack_url,
        slack_channels=(f"{OPS} project=none",),
    )
    world.messages().run()
    assert rows(world) == {}


def test_another_leader_posts_nothing_twice(world: SlackWorld) -> None:
    world.review()
    other = slack_messages.SlackKeeper(world.core, "elsewhere")
    world.sync()
    assert other.service.run_once() is False
    world.keeper.election.resign()
    other.service.run_once()
    assert len(world.shown()) == 1


def test_a_configuration_error_is_reported(world: SlackWorld) -> None:
    world.core.settings = Settings(slack_bot_token="env:NO_SUCH_VARIABLE", slack_channels=(WEB,))
    world.review()
    world.sync()
    assert "NO_SUCH_VARIABLE" in status(world)["error"]
    with pytest.raises(Misconfigured):
        world.messages()
