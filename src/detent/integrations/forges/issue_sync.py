"""Synchronises issues of a tracker with tasks: issues become tasks, comments answer questions.

Each pass reads the current state of what may have changed: what deliveries name, what the log says,
and at an interval everything. The tracker itself records what detent has written to it: before each
write, detent reads what is there, so that a crash at any point repeats nothing.
"""

import logging
from collections.abc import Callable, Iterable
from enum import StrEnum

from detent import views
from detent.engine.project_usage import STORAGE_QUOTA
from detent.errors import DetentError, Invalid, NotFound, Refused, TooLarge, TooMany
from detent.integrations.forges.forge import ForgeRefused, IssueTracker
from detent.integrations.forges.issue_tasks import (
    IssueConfig,
    Place,
    add_task,
    asks_for_task,
    find_task,
    live_tasks,
    may_ask_for_task,
)
from detent.integrations.forges.question_comments import question_of, sync_question
from detent.kernel.entities import Task
from detent.kernel.events import level_of
from detent.operations.context import Core
from detent.operations.forge_deliveries import (
    TABLE,
    Delivery,
    close_deliveries,
    open_deliveries,
)
from detent.operations.forge_hook import Named

log = logging.getLogger("detent.forges")

MAX_EVENTS = 500
#: The maximum number of issues that one pass reads, so that tasks do not wait for all of them.
MAX_ISSUES = 20
#: Clocks differ: issues that have changed this long before the last poll are listed again.
OVERLAP_US = 300_000_000
#: How long issues wait after the quota of stored bytes has refused one.
FULL_S = 60
#: Errors that concern one task alone: the others go on.
TASK_ERRORS = (ForgeRefused, Refused, Invalid, NotFound, TooLarge)


class Kind(StrEnum):
    """What a number is of. GitLab numbers issues and merge requests separately."""

    ISSUE = "issue"
    REQUEST = "request"


class RepositoryRefused(DetentError):
    """The tracker does not show the issues of one repository."""

    default_code = "refused"

    def __init__(self, tracker: str, repo: str, error: ForgeRefused) -> None:
        super().__init__(
            f"The issues of {repo} cannot be read: {error.message}",
            hint=f"Check the name in {tracker}.repositories and the access of the token; after a "
            "change of the settings, restart detent. The other repositories still work.",
        )


class IssueSync:
    """The passes of one leader: a tracker of the keeper, made from an issue tracker."""

    def __init__(
        self,
        core: Core,
        tracker: IssueTracker,
        config: IssueConfig,
        check_leader: Callable[[], object] = lambda: None,
    ) -> None:
        self.core, self.tracker, self._config = core, tracker, config
        #: Called before each task and issue, and before each request that changes something: raises
        #: an error if another process leads now.
        self._check_leader = check_leader
        #: Why a part does not work while the rest does: a repository that cannot be read.
        self.fault: DetentError | None = None
        self._next_poll = 0
        #: The tasks to read again in the next pass.
        self._again: set[str] = set()
        #: By repository, the time since which its changed issues are listed next.
        self._issues_since: dict[str, str] = {}
        #: Issues that are not read yet, and until when they wait because of a quota of the project.
        #: A new process reads all issues.
        self._unread: set[Place] = set()
        self._wait_until = 0

    # -- passes ----------------------------------------------------------------------------

    def run(self, now: int, /, *, fresh: bool) -> bool:
        """Process what has changed, at the interval everything; returns whether there is more."""
        poll = fresh or now >= self._next_poll
        deliveries = open_deliveries(self.core, self.tracker.name)
        changed, position, more = self._changed()
        again, self._again = self._again, set()
        self._take_issues(deliveries, now, poll=poll)
        named = [each for _, named in deliveries for each in self.tasks_of(named)]
        for task_id in dict.fromkeys(self.live_tasks() if poll else [*changed, *again, *named]):
            self._check_leader()
            self.sync_task(task_id)
        if deliveries:
            close_deliveries(self.core, self.tracker.name, deliveries)
        if position is not None:
            self.save("system_state", f"{self.tracker.name}_cursor", position)
        if poll:
            self._next_poll = now + self._config.interval_ms * 1_000
        return more or (bool(self._unread) and now >= self._wait_until)

    def close(self) -> None:
        self.tracker.close()

    def _changed(self) -> tuple[list[str], int | None, bool]:
        """The tasks of the tracker that the log names, its position, and whether there is more."""
        prefix = f"{self.tracker.name}."
        with self.core.store.read() as view:
            cursor = view.rows("system_state").get(f"{self.tracker.name}_cursor") or 0
            batch = view.events(cursor, MAX_EVENTS)
        named = (each.subject or each.stream for each in batch if level_of(each.name) == "task")
        found = [each for each in dict.fromkeys(named) if each.startswith(prefix)]
        return found, batch[-1].position if batch else None, len(batch) == MAX_EVENTS

    def tasks_of(self, named: Named) -> list[str]:
        """The tasks that a delivery is about."""
        found = (self.task_of(Kind.ISSUE, named.repo, each) for each in named.issues)
        return [each for each in found if each is not None]

    def live_tasks(self) -> list[str]:
        return live_tasks(self.core, self.tracker.name)

    # -- issues ----------------------------------------------------------------------------

    def _take_issues(self, deliveries: Iterable[Delivery], now: int, *, poll: bool) -> None:
        """Make tasks of the issues that may have changed. What an error leaves is read later."""
        for _, named in deliveries:
            self._unread |= self._configured(named)
        if poll:
            self.fault = None
            for repo in self._config.repositories:
                self._list_issues(repo, now)
        for place in sorted(self._unread)[:MAX_ISSUES] if now >= self._wait_until else ():
            wait_s = self._take_issue(place)
            if wait_s:
                self._wait_until = now + wait_s * 1_000_000
                return
            self._unread.remove(place)

    def _list_issues(self, repo: str, now: int) -> None:
        """Find the issues of a repository that may ask for a task since the last poll.

        A repository that was removed or renamed does not stop the others.
        """
        try:
            listed = list(self.tracker.issues(repo, self._issues_since.get(repo)))
        except ForgeRefused as error:
            log.warning("%s: %s: %s", self.tracker.name, repo, error)
            self.fault = RepositoryRefused(self.tracker.name, repo, error)
            return
        self._unread |= {
            Place(repo, issue.number) for issue in listed if may_ask_for_task(issue, self._config)
        }
        self._issues_since[repo] = views.utc(now - OVERLAP_US)

    def _configured(self, named: Named) -> set[Place]:
        """The issues of a delivery; none if the settings no longer have its repository."""
        if named.repo in self._config.repositories:
            return {Place(named.repo, each) for each in named.issues}
        log.warning(
            "%s: a delivery of %s makes no tasks: the settings no longer have this repository",
            self.tracker.name,
            named.repo,
        )
        return set()

    def _take_issue(self, place: Place) -> int:
        """Make an issue a task if a person has asked for it.

        Returns the seconds after which to try again, if a quota has refused it; otherwise 0.
        """
        self._check_leader()
        try:
            issue = self.tracker.issue(*place)
            if issue is not None and asks_for_task(issue, self._config):
                task_id = add_task(self.core, self.tracker.name, issue, self._config)
                self.note_task(Kind.ISSUE, *place, task_id)
        except (*TASK_ERRORS, TooMany) as error:
            log.warning("%s: issue %s#%s: %s", self.tracker.name, *place, error)
            if isinstance(error, TooMany):
                return error.retry_after_s
            return FULL_S if isinstance(error, Refused) and error.code == STORAGE_QUOTA else 0
        return 0

    # -- one task --------------------------------------------------------------------------

    def sync_task(self, task_id: str) -> None:
        """Bring one task and its issue into agreement."""
        with self.core.store.read() as view:
            found = find_task(view, self.tracker.name, task_id)
        try:
            if found is not None:
                self.sync_question(found.task, found.place)
        except TASK_ERRORS as error:
            log.warning("%s: task %s: %s", self.tracker.name, task_id, error)

    def sync_question(self, task: Task, place: Place) -> None:
        """Ask the open question of a task on its issue, or answer it with a comment from there."""
        question = question_of(task)
        issue = None if question is None else self.tracker.issue(*place)
        if question is not None and issue is not None:
            sync_question(self.core, self.tracker, task, question, issue, self._check_leader)

    # -- the tasks of numbers --------------------------------------------------------------

    def task_of(self, kind: Kind, repo: str, number: int) -> str | None:
        """The task of the issue or of the pull request with this number."""
        row = self._row(kind, repo, number)
        with self.core.store.read() as view:
            found = view.rows_under(TABLE, row).get(row)
        return None if found is None else str(found)

    def note_task(self, kind: Kind, repo: str, number: int, task_id: str) -> None:
        self.save(TABLE, self._row(kind, repo, number), task_id)

    def _row(self, kind: Kind, repo: str, number: int) -> str:
        return f"{self.tracker.name}:{kind}:{repo}#{number}"

    def save(self, table: str, row: str, value: object) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows(table, {row: value}))
