"""Questions of a task as comments on its issue, and the comments that answer them."""

from collections.abc import Callable
from typing import NamedTuple

from detent.errors import Refused
from detent.integrations.forges.forge import Issue, IssueTracker, Note
from detent.integrations.forges.markers import has_marker, is_own, marked
from detent.kernel import commands as c
from detent.kernel.entities import Task
from detent.kernel.wait_kinds import PEOPLE
from detent.operations.context import Core
from detent.operations.registry import Caller


class Question(NamedTuple):
    """The open question of a task."""

    wait: str
    text: str
    options: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"question {self.wait}"

    def shown(self, task_id: str) -> str:
        listed = "".join(f"\n- {each}" for each in self.options)
        choices = f"\n\nAnswer with one of:{listed}" if self.options else ""
        return f"{self.text}{choices}\n\nThe next comment on this issue is the answer ({task_id})."


def question_of(task: Task) -> Question | None:
    if task.blocked_by not in PEOPLE or "wait" not in task.blocked_detail:
        return None
    detail = task.blocked_detail
    # The name of a wait is unique within its job.
    wait = f"{task.job_id} {detail['wait']}"
    text = str(detail.get("text") or "The agent asks a person to decide.")
    return Question(wait, text, tuple(str(each) for each in detail.get("options") or ()))


def sync_question(
    core: Core,
    tracker: IssueTracker,
    task: Task,
    question: Question,
    issue: Issue,
    check_leader: Callable[[], object],
) -> None:
    """Ask the open question on the issue once; a comment of a trusted person after it answers."""
    account = tracker.account()
    if not has_marker(issue.notes, question.key, account):
        body = marked(question.shown(task.id), question.key)
        check_leader()
        tracker.comment(issue.repo, issue.number, body)
        return
    asked = [has_marker((each,), question.key, account) for each in issue.notes].index(True)
    for note in issue.notes[asked + 1 :]:
        if note.trusted and not is_own(note) and _answer(core, tracker, task, question, note):
            return
        _explain(tracker, issue, question, note, check_leader)


def _answer(core: Core, tracker: IssueTracker, task: Task, question: Question, note: Note) -> bool:
    """Answer the question with a comment; False if it is not one of the options."""
    given = note.body.strip()
    by_name = {each.casefold(): each for each in question.options}
    answer = by_name.get(given.casefold(), given)
    command = c.AnswerTask(task.id, answer, task.blocked_detail["wait"])
    try:
        core.engine.do(command, Caller(f"{tracker.name}:{note.author}").actor)
    except Refused as refusal:
        if refusal.code != "not_an_option":
            raise
        return False
    return True


def _explain(
    tracker: IssueTracker,
    issue: Issue,
    question: Question,
    note: Note,
    check_leader: Callable[[], object],
) -> None:
    """Say once that a comment of a trusted person is not one of the options."""
    key = f"refused {note.id}"
    explained = has_marker(issue.notes, key, tracker.account())
    if note.trusted and not is_own(note) and not explained:
        listed = ", ".join(question.options)
        body = f"@{note.author}: this is not one of the options. The options are: {listed}."
        check_leader()
        tracker.comment(issue.repo, issue.number, marked(body, key))
