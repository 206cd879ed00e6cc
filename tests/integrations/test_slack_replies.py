"""Clicks from Slack: carried out once, with the right of a mapped user, for the version shown."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from detent import failpoints
from detent.failpoints import Action, Armed
from detent.operations.registry import OWNER
from tests.integrations.slack_world import ADA, EVE, OPS, STRANGER, WEB, SlackWorld, slack_world
from verification.slack.slack_server import Posted

HOUR_S = 3_600


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SlackWorld]:
    with slack_world(tmp_path) as made:
        yield made


def notice(world: SlackWorld) -> str:
    """The only message that a person got."""
    ((_, _, text),) = world.server.notices
    return text


def written(world: SlackWorld) -> int:
    return world.head()


# ---- the story ---------------------------------------------------------------------------------


def test_a_question_is_answered_with_an_option(world: SlackWorld) -> None:
    task_id = world.question(options=["eu", {"name": "us"}])
    world.sync()
    assert world.click(ADA, "option:2") == 200
    assert world.task(task_id)["answered"] == {"question": "question", "answer": {"name": "us"}}
    events = world.call("task_events", task_id=task_id)["events"]
    assert [each["actor"] for each in events if each["name"] == "task_answered"] == ["ada"]
    world.sync()
    assert '*Answered* by ada: {\\"name\\": \\"us\\"}' in world.only().shown
    assert world.server.notices == []


def test_a_question_is_answered_with_a_text(world: SlackWorld) -> None:
    task_id = world.question()
    world.sync()
    world.click(ADA, "answer")
    assert world.fill(ADA, "Frankfurt,\nplease") == {}
    assert world.task(task_id)["answered"]["answer"] == "Frankfurt,\nplease"


def test_many_options_are_a_list_in_a_dialog(world: SlackWorld) -> None:
    task_id = world.question(options=[f"region {at}" for at in range(1, 131)])
    world.sync()
    assert list(world.only().buttons) == ["detent:answer", "detent:stop"]
    world.click(ADA, "answer")
    assert world.fill(ADA, "77") == {}
    assert world.task(task_id)["answered"]["answer"] == "region 77"


def test_own_words_are_refused_where_only_options_are_allowed(world: SlackWorld) -> None:
    task_id = world.question(options=["eu"], other=True)
    world.sync()
    world.click(ADA, "answer")
    world.call("edit_task", task_id=task_id, title="Other")
    world.fill(ADA, "mars")
    assert "version 4 was reviewed, it is now version 5" in notice(world)
    assert world.state(task_id) == "blocked"


def test_a_review_is_accepted(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.click(ADA, "accept")
    assert world.state(task_id) == "completed"
    world.sync()
    assert "*Accepted* by ada" in world.only().shown


def test_a_review_is_rejected_with_a_comment_and_runs_again(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.click(ADA, "reject")
    assert world.state(task_id) == "ready", "the dialog is open, nothing is stored"
    assert world.fill(ADA, "Add tests <now>") == {}
    task = world.task(task_id)
    assert (task["state"], task["comment"]) == ("queued", "Add tests <now>")
    world.sync()
    assert "*Rejected* by ada: Add tests &lt;now&gt;" in world.only().shown


def test_a_budget_is_raised_after_a_correction(world: SlackWorld) -> None:
    task_id = world.spent()
    world.sync()
    world.click(ADA, "raise:1")
    for wrong, message in (("1.20", "must be higher"), ("much", "amount in dollars"), ("nan", "")):
        answer = world.fill(ADA, wrong)
        assert answer["response_action"] == "errors"
        assert message in answer["errors"]["field"]
    assert world.state(task_id) == "blocked"
    assert world.fill(ADA, "$4,50") == {}
    assert (world.state(task_id), world.task(task_id)["budget"]) == ("queued", 4.5)


def test_the_budget_of_the_parent_is_raised(world: SlackWorld) -> None:
    parent = world.submit(project="web", max_budget_usd=1, options={"on_budget_exceeded": "ask"})
    held = world.claim()
    child = world.submit(project="web", parent_id=parent, options={"on_budget_exceeded": "ask"})
    (below,) = world.claims()
    world.charge(below, 2)
    world.suspend("budget", below, detail={})
    world.sync()
    message = world.only()
    assert message.buttons["detent:raise:1"]["text"]["text"] == f"Raise budget of {parent}…"
    world.click(ADA, "raise:1")
    assert world.fill(ADA, "9") == {}
    assert (world.task(parent)["budget"], world.state(child)) == (9.0, "queued")
    world.complete(held)


def test_a_task_is_stopped(world: SlackWorld) -> None:
    task_id = world.question()
    world.sync()
    world.click(ADA, "stop")
    assert world.state(task_id) == "cancelled"


# ---- the version -------------------------------------------------------------------------------

LATE: dict[str, Callable[[SlackWorld], str]] = {
    "option:1": lambda world: world.question(options=["eu"]),
    "answer": lambda world: world.question(),
    "accept": lambda world: world.review(),
    "reject": lambda world: world.review(),
    "raise:1": lambda world: world.spent(),
    "stop": lambda world: world.question(),
}


@pytest.mark.parametrize("action", LATE)
def test_a_late_click_is_refused_with_the_current_state(world: SlackWorld, action: str) -> None:
    task_id = LATE[action](world)
    world.sync()
    old = Posted(**vars(world.only()))
    world.call("cancel_task", task_id=task_id)
    before = written(world)
    world.sync()
    assert world.only().buttons == {}
    assert world.click(ADA, action, old) == 200
    assert "This click changed nothing." in notice(world)
    assert "Stopped by owner. It is cancelled now." in notice(world)
    assert (written(world), world.server.views) == (before, {})


@pytest.mark.parametrize("action", ["option:1", "accept", "raise:1", "stop"])
def test_a_click_on_an_earlier_version_is_refused(world: SlackWorld, action: str) -> None:
    task_id = LATE[action](world)
    world.sync()
    old = Posted(**vars(world.only()))
    world.call("edit_task", task_id=task_id, title="Changed")
    before = written(world)
    world.click(ADA, action, old)
    assert "has changed: version" in notice(world)
    assert written(world) == before


def test_a_dialog_that_was_opened_before_a_change_is_refused(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.click(ADA, "reject")
    world.call("accept_task", task_id=task_id)
    assert world.fill(ADA, "too late") == {}
    assert "Accepted by owner. It is completed now." in notice(world)
    assert world.task(task_id)["comment"] is None


def test_of_two_people_the_first_one_decides(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    first, second = (world.server.press(ADA, world.only(), each) for each in ("accept", "stop"))
    with ThreadPoolExecutor(2) as pool:
        assert [each[0] for each in pool.map(world.send, (first, second))] == [200, 200]
    world.settle()
    assert world.state(task_id) in ("completed", "cancelled")
    assert "This click changed nothing." in notice(world)


# ---- once --------------------------------------------------------------------------------------


def test_a_repeated_delivery_does_nothing(world: SlackWorld) -> None:
    world.review()
    world.sync()
    payload = world.server.press(ADA, world.only(), "accept")
    assert [world.send(payload)[0] for _ in range(3)] == [200, 200, 200]
    events = [each.name for each in _events(world)]
    assert events.count("task_accepted") == 1
    assert world.server.notices == []


def test_a_repeated_dialog_does_nothing(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.click(ADA, "reject")
    payload = world.server.submit(ADA, "no")
    assert [world.send(payload) for _ in range(2)] == [(200, ""), (200, "")]
    assert (world.task(task_id)["rounds"], world.server.notices) == (1, [])


def test_deliveries_in_another_order_decide_once(world: SlackWorld) -> None:
    task_id = world.question(options=["eu", "us"])
    world.sync()
    first = world.server.press(ADA, world.only(), "option:1")
    second = world.server.press(ADA, world.only(), "option:2")
    for payload in (second, first, second):
        world.send(payload)
    assert world.task(task_id)["answered"]["answer"] == "us"
    assert "Answered by ada" in notice(world)


def test_a_click_that_was_carried_out_before_a_crash_is_not_repeated(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    payload = world.server.press(ADA, world.only(), "accept")
    failpoints.armed["slack.applied"] = Armed(Action.RAISE, 1)
    assert world.send(payload)[0] != 200, "it is not acknowledged, so Slack sends it again"
    assert world.state(task_id) == "completed"
    world.send(payload)
    assert [each.name for each in _events(world)].count("task_accepted") == 1
    assert "Accepted by ada" in notice(world)


def test_old_clicks_are_forgotten(world: SlackWorld) -> None:
    for _ in range(2):
        world.review()
        world.sync()
        world.click(ADA, "accept", world.shown()[-1])
        world.later(25 * HOUR_S)
    with world.core.store.read() as view:
        assert len(view.rows_under("slack", "interaction:")) == 1


def _events(world: SlackWorld) -> Any:
    with world.core.store.read() as view:
        return view.events(0, 1_000)


# ---- who ---------------------------------------------------------------------------------------


def test_an_unknown_user_is_refused_with_what_to_do(world: SlackWorld) -> None:
    world.server.users.add(STRANGER)
    task_id = world.review()
    world.sync()
    before = written(world)
    for action in ("accept", "reject"):
        world.click(STRANGER, action)
    assert len(world.server.notices) == 2
    assert all(f"add {STRANGER}=NAME to slack.users" in text for _, _, text in world.server.notices)
    assert (world.state(task_id), written(world), world.server.views) == ("ready", before, {})


def test_a_revoked_token_of_detent_is_refused(world: SlackWorld) -> None:
    world.review()
    world.sync()
    world.call("revoke_token", OWNER, name="ada")
    world.click(ADA, "accept")
    assert "The token ada is revoked or expired" in notice(world)
    assert "detent tokens create ada" in notice(world)


def test_a_user_without_the_scope_is_refused(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.click(EVE, "accept")
    assert "eve does not have the scope review" in notice(world)
    assert world.state(task_id) == "ready"


def test_a_user_of_another_project_is_refused(tmp_path: Path) -> None:
    users = (f"{ADA}=bob",)
    with slack_world(tmp_path, slack_users=users) as world:
        scopes = ["review", "operate"]
        world.call("create_token", name="bob", scopes=scopes, project="ops")
        world.review()
        world.sync()
        world.click(ADA, "accept")
        assert "There is no task" in notice(world)


def test_a_click_from_another_channel_is_refused(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    world.click(ADA, "accept", channel=OPS)
    assert "does not concern this channel" in notice(world)
    assert world.state(task_id) == "ready"


def test_a_channel_does_not_decide_about_work_of_other_channels(tmp_path: Path) -> None:
    channels = (f"{WEB} project=web", f"{OPS} project=ops")
    with slack_world(tmp_path, slack_channels=channels) as world:
        task_id = world.review()
        world.sync()
        world.click(ADA, "accept", channel=OPS)
        assert "does not concern this channel" in notice(world)
        assert world.state(task_id) == "ready"


# ---- requests ----------------------------------------------------------------------------------


def test_a_request_without_slacks_signature_is_refused(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    payload = world.server.press(ADA, world.only(), "accept")
    headers, body = world.server.signed(payload)
    text = body.decode()
    forged = {
        "no signature": {**headers, "X-Slack-Signature": ""},
        "another signature": {**headers, "X-Slack-Signature": "v0=" + "0" * 64},
        "another time": {**headers, "X-Slack-Request-Timestamp": str(int(time.time()) + 1)},
        "a time that is no number": {**headers, "X-Slack-Request-Timestamp": "1e9"},
        "no headers": {},
    }
    for name, given in forged.items():
        assert world.replies.receive(given, text)[0] == 401, name
    assert world.replies.receive(headers, text.replace(ADA, EVE))[0] == 401
    for wrong in ("payload=", "payload=[]", "payload=nope"):
        assert world.replies.receive(headers, wrong)[0] == 400, wrong
    assert world.send(payload, at=time.time() - 301)[0] == 401, "an old request"
    assert (world.state(task_id), world.server.notices) == ("ready", [])
    assert world.replies.receive(headers, text)[0] == 200


def test_what_detent_did_not_make_is_refused(world: SlackWorld) -> None:
    task_id = world.review()
    world.sync()
    button = world.only().buttons["detent:accept"]
    for value in ("", "null", "[1]", '["x"]', '{"id": 1}'):
        assert world.click(ADA, "accept", button={**button, "value": value}) == 200
    assert world.server.notices == []
    for name in ("explode", "option:9", "option:x", "send:task_launched"):
        named = {**button, "action_id": f"detent:{name}"}
        assert world.click(ADA, "accept", button=named) == 200, name
    assert world.click(ADA, "accept", button={**button, "action_id": "other"}) == 404
    assert world.state(task_id) == "ready"


def test_a_link_is_only_acknowledged(tmp_path: Path) -> None:
    with slack_world(tmp_path, slack_dashboard_url="https://detent.example") as world:
        world.review()
        world.sync()
        button = {**world.only().buttons["detent:open"], "value": ""}
        assert world.click(ADA, "open", button=button) == 200
        assert world.server.notices == []
