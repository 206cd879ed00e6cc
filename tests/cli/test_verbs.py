"""Verbs on one task, on several, and on all that a filter finds; and what an operator does."""

import json
import pty
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detent.cli import inbox, task_selection
from detent.cli.main import cli
from detent.cli.wait import wait_for
from detent.keeper import intake_drain
from detent.kernel import commands as c
from tests.cli.terminal import drawn_on
from tests.operations.installation import local_installation

Run = Callable[..., Result]


def submit(data: Path, count: int = 1, **fields: Any) -> list[str]:
    with local_installation(data) as place:
        return [place.submit(**fields) for _ in range(count)]


def states(run: Run) -> list[str]:
    items = json.loads(run("tasks", "--json").stdout)["items"]
    return sorted(row["state"] for row in items)


# ---- one and several -------------------------------------------------------------------------


def test_one_task_is_reported_alone(run: Run, data: Path) -> None:
    (task_id,) = submit(data)
    assert run("cancel", task_id).stdout == f"{task_id}: cancelled\n"
    (other,) = submit(data)
    assert json.loads(run("cancel", other, "--json").stdout)["state"] == "cancelled"


def test_one_that_refuses_is_the_commands_error(run: Run, data: Path) -> None:
    (task_id,) = submit(data)
    run("cancel", task_id)
    refused = run("cancel", task_id, code=1)
    assert "[illegal_transition]" in refused.stderr or "[refused]" in refused.stderr


def test_of_several_each_is_reported_and_one_refusal_does_not_stop_the_others(
    run: Run, data: Path
) -> None:
    first, second = submit(data, 2)
    run("cancel", first)
    result = run("cancel", first, second, "--reason", "enough", code=1)
    assert f"{second}: cancelled" in result.stdout
    assert "cancel: 1 done, 1 refused." in result.stdout
    assert result.stderr.startswith(f"{first}: ")
    assert states(run) == ["cancelled", "cancelled"]


def test_several_as_json_are_one_document(run: Run, data: Path) -> None:
    first, second = submit(data, 2)
    found = json.loads(run("cancel", first, second, "unknown", "--json", code=1).stdout)
    assert [row["id"] for row in found["items"]] == [first, second]
    assert found["refused"][0]["code"] == "unknown_task"


def test_a_job_alone_is_named_like_a_task(run: Run, data: Path) -> None:
    with local_installation(data) as place:
        job_id = str(place.call("submit_job", intent="runQA")["id"])
        (held,) = place.claim()
        detail = {"text": "Go on?", "options": ["yes", "no"]}
        run_id = str(held.job.run_id)
        place.report(c.SuspendRun(held.grant, run_id, "ask", "question", detail=detail))
    assert run("signal", job_id, "go").stdout == f"{job_id}: parked (kept)\n"
    assert run("answer", job_id, "yes").stdout == f"{job_id}: queued (answered)\n"
    assert run("cancel", job_id).stdout == f"{job_id}: cancelled\n"
    assert run("delete", job_id).stdout == f"{job_id}: deleted\n"
    unknown = run("cancel", job_id, code=3).stderr
    assert unknown.startswith(f"detent: There is no task or job '{job_id}'. [unknown_task]")


# ---- filters ---------------------------------------------------------------------------------


def test_without_a_terminal_many_are_not_touched_without_yes(run: Run, data: Path) -> None:
    submit(data, 3)
    refused = run("cancel", "--state", "queued", "--intent", "runQA", code=1)
    assert "cancel 3 tasks (state queued, intent runQA)" in refused.stderr
    assert "--yes" in refused.stderr
    assert states(run) == ["queued"] * 3


def test_with_yes_all_that_match_are_acted_on(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_selection, "PAGE_LIMIT", 2)
    submit(data, 5, tags=["old"])
    submit(data, 1)
    found = run("cancel", "--tag", "old", "--yes")
    assert found.stdout == "cancel: 5 done, 0 refused.\n"
    assert states(run) == ["cancelled"] * 5 + ["queued"]


def test_nothing_that_matches_is_no_error(run: Run, data: Path) -> None:
    submit(data)
    assert run("retry", "--state", "failed").stdout == "No task matches the filter.\n"
    empty = json.loads(run("retry", "--state", "failed", "--json").stdout)
    assert empty == {"items": [], "refused": []}


def test_a_person_is_asked_and_may_say_no(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(data, 2)
    for reply, expected in (("n", ["queued"] * 2), ("y", ["cancelled"] * 2)):
        answered = _at_a_terminal(monkeypatch, ["cancel", "--state", "queued"], reply)
        assert "cancel 2 tasks (state queued)? [y/N]" in answered.stderr
        assert states(run) == expected


def _at_a_terminal(monkeypatch: pytest.MonkeyPatch, arguments: list[str], typed: str) -> Result:
    class Typed(CliRunner):
        def isolation(self, *args: Any, **kwargs: Any) -> Any:
            context = super().isolation(*args, **kwargs)
            return _WithTerminal(context, monkeypatch)

    return Typed().invoke(cli, arguments, input=typed + "\n")


class _WithTerminal:
    """The runner's isolation, in which stdin says that it is a terminal."""

    def __init__(self, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.context, self.monkeypatch = context, monkeypatch

    def __enter__(self) -> Any:
        entered = self.context.__enter__()
        self.monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        return entered

    def __exit__(self, *error: Any) -> Any:
        return self.context.__exit__(*error)


@pytest.mark.parametrize("arguments", [["cancel"], ["cancel", "x", "--state", "queued"]])
def test_exactly_one_way_of_naming(run: Run, arguments: list[str]) -> None:
    assert "Give task ids, or a filter" in run(*arguments, code=2).stderr


def test_an_unknown_state_is_named_with_what_there_is(run: Run) -> None:
    refused = run("cancel", "--state", "quequed", "--yes", code=2)
    assert "'quequed'" in refused.stderr
    assert "queued" in refused.stderr


# ---- pausing ---------------------------------------------------------------------------------


def test_pausing_and_its_end(run: Run, data: Path) -> None:
    why = ("--reason", "the device is unplugged")
    assert run("pause", "--intent", "runQA", *why).stdout == "intent:runQA: paused\n"
    assert "intent:runQA" in run("limits").stdout
    (listed,) = json.loads(run("pause", "--list", "--json").stdout)["items"]
    assert (listed["paused_by"], listed["reason"]) == ("owner", "the device is unplugged")
    (task_id,) = submit(data)
    held_up = run("why", task_id).stdout
    assert "paused_by: owner" in held_up
    assert "reason: the device is unplugged" in held_up
    assert run("unpause", "--intent", "runQA").stdout == "intent:runQA: not paused\n"
    assert run("pause", "--list").stdout == "Nothing is paused.\n"
    assert json.loads(run("pause", "--all", "--json").stdout)["name"] == "all"


@pytest.mark.parametrize("options", [[], ["--all", "--intent", "x"], ["--project", "p", "--all"]])
def test_a_pause_says_of_what(run: Run, options: list[str]) -> None:
    assert "one of --intent, --project, --key and --all" in run("pause", *options, code=2).stderr


# ---- by hand ---------------------------------------------------------------------------------


def test_a_task_is_created_and_set_by_hand(run: Run, data: Path) -> None:
    made = json.loads(run("tasks", "create", "runQA", "--title", "By hand", "--json").stdout)["id"]
    assert states(run) == ["inbox"]
    run("tasks", "set", made, "--title", "Renamed", "--priority", "high", "--tag", "a")
    shown = json.loads(run("show", made, "--json").stdout)["task"]
    assert (shown["title"], shown["priority"], shown["tags"]) == ("Renamed", "P0", ["a"])
    assert run("tasks", "set", made, "done").stdout == f"{made}: done\n"
    assert "Give a state" in run("tasks", "set", made, code=2).stderr


def test_a_run_is_begun_and_ended_by_hand(run: Run, data: Path) -> None:
    made = json.loads(run("tasks", "create", "runQA", "--json").stdout)["id"]
    begun = json.loads(run("runs", "create", made, "--json").stdout)
    assert begun["id"] == f"{made}-j1-r1"
    ended = run("runs", "update", begun["id"], "--exit-code", "1", "--error", "it is red")
    assert "it is red" in ended.stdout
    run_row = json.loads(run("runs", "--json").stdout)["items"][0]
    assert (run_row["state"], run_row["exit_code"]) == ("failed", 1)


def test_resources_workers_schedules_tokens_and_projects_are_kept(run: Run, data: Path) -> None:
    put = ("resources", "put", "phone", "--capability", "call", "--label", "os=x", "--json")
    assert json.loads(run(*put).stdout)["labels"] == {"os": "x"}
    assert "drained" in run("resources", "drain", "phone").stdout
    assert "healthy" in run("resources", "undrain", "phone").stdout
    assert run("resources", "delete", "phone").stdout == "phone: deleted\n"
    run("resources", "put", "team", "--service", "models", "--personal")
    listed = run("resources").stdout
    assert "models (personal)" in listed
    assert "available" in listed
    assert "0 in, 0 out" in run("resources", "reset", "team").stdout
    assert run("resources", "delete", "team").stdout == "team: deleted\n"
    assert run("workers", "drain", "unknown", code=3)
    assert "every 900 s" in run("schedules", "put", "often", "runQA", "--every", "15m").stdout
    assert "paused" in run("schedules", "pause", "often").stdout
    assert "paused" not in run("schedules", "resume", "often").stdout
    assert run("schedules", "trigger", "often").stdout.strip()
    assert run("schedules", "delete", "often").stdout == "often: deleted\n"
    token = run("tokens", "create", "ci", "--scope", "read", "--expires", "1d").stdout
    assert token.startswith("detent_")
    assert run("tokens", "revoke", "ci").stdout == "ci: revoked\n"
    assert run("projects", "create", "new").stdout == "new\n"
    assert run("state", "set", "release", '"1.0"').stdout == "release: 1.0\n"
    assert run("state", "set", "release", '{"at": null}').stdout == 'release: {"at": null}\n'
    assert run("state", "set", "release", "null").stdout == "release: removed\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("schedules", "put", "often", "runQA", "--cron", "nonsense"), "cron"),
        (("schedules", "put", "often", "runQA"), "Give --cron or --every, and not both."),
        (("webhooks", "put", "w", "nowhere"), "url must be like https://example.org/hook"),
        (("submit", "runQA", "--payload", "{"), "The payload is not JSON"),
        (("submit", "runQA", "--payload", "@no-file"), "no-file cannot be read: No such file"),
    ],
)
def test_what_is_wrong_has_a_message_of_its_own(
    run: Run, command: tuple[str, ...], message: str
) -> None:
    refused = run(*command, code=2).stderr
    assert message in refused
    assert "characters" not in refused


@pytest.mark.parametrize("every", ["soon", "1w", "", "-5m"])
def test_a_time_that_is_none_is_named(run: Run, every: str) -> None:
    refused = run("schedules", "put", "often", "runQA", "--every", every, code=2)
    assert "Write 90s, 15m, 2h or 1d." in refused.stderr


def test_lists_are_searched(run: Run, data: Path) -> None:
    submit(data, title="Renew certificates")
    submit(data, title="Send the invoices")
    found = json.loads(run("tasks", "--search", "CERT", "--json").stdout)["items"]
    assert [row["title"] for row in found] == ["Renew certificates"]
    nothing = run("jobs", "--search", "nothing of that", "--limit", "3").stdout
    assert nothing == "Nothing matches --search 'nothing of that'.\n"


def test_an_empty_list_says_whether_it_was_filtered(run: Run, data: Path) -> None:
    assert "No tasks found. Submit one" in run("tasks", "--limit", "3").stdout
    assert run("tasks", "--project", "shop").stdout == "Nothing matches --project shop.\n"


# ---- the inbox -------------------------------------------------------------------------------


def test_the_inbox_is_dealt_with_one_by_one(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_installation(data) as place:
        for title in ("First", "Second", "Third"):
            place.submit(title=title)
            place.complete(place.claim()[0])
            place.clock.advance(seconds=1)
    typed = "show\naccept\nreject\nnot yet\nn\nskip"
    shown = _at_a_terminal(monkeypatch, ["inbox"], typed).stdout
    assert shown.index("First") < shown.index("2 of 3") < shown.index("Second")
    assert states(run) == ["completed", "pending", "ready"]


def blocked_parent(data: Path) -> tuple[str, str]:
    """A parent that waits for its subtask, and that, which was cancelled."""
    with local_installation(data) as place:
        parent = place.submit(title="Parent")
        held = place.claim()[0]
        child = place.submit(title="Child", parent_id=parent)
        place.complete(held)
        place.call("cancel_task", task_id=child)
    return parent, child


def test_a_failed_subtask_is_dismissed(run: Run, data: Path) -> None:
    parent, child = blocked_parent(data)
    why = run("why", parent).stdout
    assert f"detent dismiss {child}" in why
    assert run("dismiss", child, "--reason", "enough").stdout == f"{child}: cancelled (dismissed)\n"
    assert run("dismiss", child).stdout == f"{child}: cancelled (repeated)\n"
    assert json.loads(run("why", parent, "--json").stdout)["state"] == "ready"
    refused = run("dismiss", parent, code=1)
    assert "[not_dismissible]" in refused.stderr
    assert f"Possible now: `detent accept {parent}`" in refused.stderr


def test_a_wait_ends_when_a_subtask_has_failed(data: Path) -> None:
    parent, child = blocked_parent(data)
    with local_installation(data) as place:
        task = wait_for(place, parent, as_json=False)
    assert (task["state"], task["blocked_by"]) == ("blocked", "subtasks")
    assert task["failed_subtask"] == child


def test_a_failed_subtask_is_dismissed_in_the_inbox(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = blocked_parent(data)
    listed = run("inbox", "--list").stdout
    assert "cancelled, and its parent waits for it: dismiss" in listed
    shown = _at_a_terminal(monkeypatch, ["inbox"], "dismiss\nnot needed").stdout
    assert f"{child}: cancelled (dismissed)" in shown
    assert json.loads(run("why", parent, "--json").stdout)["state"] == "ready"


def test_a_refused_submission_is_shown_and_dropped(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_installation(data) as place:
        with place.core.store.write() as tx:
            for intent in ("fly", "swim"):
                tx.put_intake("submit_task", json.dumps({"intent": intent}))
        intake_drain.run(place.core)
    listed = run("inbox", "--list").stdout
    assert "detent inbox --drop NUMBER" in listed
    assert "intent must be one of review, runQA, not 'fly'." in listed
    assert run("inbox", "--drop", "1").stdout == "Dropped 1.\n"
    assert "[not_found]" in run("inbox", "--drop", "1", code=3).stderr
    shown = _at_a_terminal(monkeypatch, ["inbox"], "drop\n").stdout
    assert '{"intent": "swim"}' in shown
    assert run("inbox").stdout == "Nothing waits for a person.\n"


def test_a_submission_for_later_says_when(run: Run, data: Path) -> None:
    with local_installation(data):
        pass
    (data.parent / "detent.toml").write_text('[intents.runQA]\ncommand = ["true"]\n')
    task_id = run("submit", "runQA", "--at", "2099-01-01T12:00:00Z").stdout.strip()
    assert "2099-01-01T12:00:00.000Z" in run("why", task_id).stdout
    refused = run("submit", "runQA", "--at", "noon", code=2).stderr
    assert "--at must be a time with a time zone" in refused


def test_a_job_alone_is_answered_in_the_inbox(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = {"text": "Which way?", "options": ["left", "right"]}
    with local_installation(data) as place:
        ids = [place.call("submit_job", intent="runQA", payload={"to": "x"})["id"] for _ in "ab"]
        for held in place.claim():
            suspend = c.SuspendRun(
                held.grant, str(held.job.run_id), "ask", "question", detail=detail
            )
            place.report(suspend)
    listed = run("inbox", "--list").stdout
    assert listed.count("question: Which way? (left, right)") == 2
    assert ids[0] in listed
    typed = "show\nanswer\nup\nanswer\nleft\ncancel"
    shown = _at_a_terminal(monkeypatch, ["inbox"], typed)
    assert '"to": "x"' in shown.stdout
    assert "Its options are" in shown.stderr
    found = json.loads(run("jobs", "--json").stdout)["items"]
    assert {row["id"]: row["state"] for row in found} == {ids[0]: "queued", ids[1]: "cancelled"}
    assert json.loads(run("inbox", "--json").stdout) == {
        "count": 0,
        "snoozed": 0,
        "items": [],
        "questions": [],
        "refused": [],
    }


def test_what_failed_waits_in_the_inbox_until_a_person_handles_it(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_installation(data) as place:
        for title in ("Broken", "Slow"):
            place.submit(title=title, options={"retry": {"retries": 0}})
        broken, slow = place.claim()
        place.report(c.FailRun(broken.grant, str(broken.job.run_id), "error", "no"))
        place.clock.advance(seconds=1)
        place.report(c.TimeOutRun(slow.grant, str(slow.job.run_id), "run"))
    assert "timed out: " in run("inbox", "--list").stdout
    shown = _at_a_terminal(monkeypatch, ["inbox"], "delete\nresume").stdout
    assert shown.index("Broken") < shown.index("Slow")
    assert states(run) == ["queued"]


def test_what_changed_meanwhile_is_not_accepted_unseen(data: Path) -> None:
    with local_installation(data) as place:
        task_id = place.submit()
        place.complete(place.claim()[0])
        (row,) = place.call("inbox")["items"]
        place.call("edit_task", task_id=task_id, title="Another")

        class Here:
            def call(self, operation: str, /, **arguments: Any) -> Any:
                return place.call(operation, **arguments)

        with pytest.raises(Exception, match="version"):
            inbox._accept(Here(), row)


def test_a_bar_is_drawn_on_a_terminal_alone() -> None:
    import subprocess

    program = (
        "from detent.cli.progress import progress_bar\n"
        "with progress_bar(4950) as update: update('cancel', 100)\n"
        "print(4950)"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as process:
        out, _ = process.communicate(timeout=60)
    drawn = drawn_on(ours, theirs)
    assert out == "4950\n"
    assert "cancel" in drawn
    plain = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (plain.stdout, plain.stderr) == ("4950\n", "")
