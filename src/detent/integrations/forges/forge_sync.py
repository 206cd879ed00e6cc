"""Brings tasks and a forge into agreement: issues become tasks, work becomes pull requests.

Each pass reads the current state of what may have changed: what deliveries name, what the log says,
and at an interval everything. The forge itself records what detent has written to it: before each
write, detent reads what is there, so that a crash at any point repeats nothing.
"""

import io
import logging
import re
from collections.abc import Callable, Iterable

from detent import views
from detent.engine.project_usage import STORAGE_QUOTA
from detent.errors import Invalid, NotFound, Refused, TooLarge, TooMany
from detent.integrations.forges.forge import Forge, ForgeRefused, NewRequest, PullRequest, Status
from detent.integrations.forges.forge_config import ForgeConfig
from detent.integrations.forges.forge_task import BRANCH, ForgeTask, live_tasks, read_task
from detent.integrations.forges.issue_tasks import Place, add_task, asks_for_task
from detent.integrations.forges.markers import marked
from detent.integrations.forges.question_comments import question_of, sync_question
from detent.integrations.forges.request_comments import Comments
from detent.integrations.forges.request_events import (
    REVIEWED,
    Pushed,
    Sent,
    can_be_merged,
    closed,
    foreign_head,
    next_event,
)
from detent.kernel import commands as c
from detent.kernel.events import level_of
from detent.kernel.task_lifecycle import Phase
from detent.operations.context import Core
from detent.operations.evidence import attach_evidence
from detent.operations.forge_deliveries import (
    TABLE,
    Delivery,
    close_deliveries,
    open_deliveries,
)
from detent.operations.registry import Caller

log = logging.getLogger("detent.forges")

MAX_EVENTS = 500
#: How often a pull request is read again because the forge has not computed a conflict yet.
MAX_AGAIN = 30
#: Clocks differ: issues that have changed this long before the last poll are listed again.
OVERLAP_US = 300_000_000
#: How long issues wait after the quota of stored bytes has refused one.
FULL_S = 60
LONGEST_STATUS = 140
WORKING = Status("pending", "The agent works on this pull request.")
WAITING = Status("passed", "Waits for checks and reviews.")
HELD = "A person must decide: "


class ForgeSync:
    """The passes of one leader."""

    def __init__(
        self,
        core: Core,
        forge: Forge,
        config: ForgeConfig,
        check_leader: Callable[[], object] = lambda: None,
    ) -> None:
        self.core, self.forge, self.config = core, forge, config
        #: Called before each task and issue: raises an error if another process leads now.
        self._check_leader = check_leader
        self._caller = Caller(forge.name)
        #: The tasks to read again in the next pass, and how often tasks were read again.
        self._again: set[str] = set()
        self._tries: dict[str, int] = {}
        self._issues_since: str | None = None
        #: Issues that a quota of the project has refused, and the time of the next attempt. A new
        #: process reads all issues.
        self._refused: set[Place] = set()
        self._refused_until = 0

    # -- passes ----------------------------------------------------------------------------

    def run(self, *, poll: bool = False) -> bool:
        """Process what has changed, with `poll` everything; returns whether there is more."""
        deliveries = open_deliveries(self.core, self.forge.name)
        changed, position, more = self._changed()
        again, self._again = self._again, set()
        self._take_issues(deliveries, poll=poll)
        due = [*changed, *again, *self._of_deliveries(deliveries)]
        for task_id in dict.fromkeys(live_tasks(self.core, self.forge.name) if poll else due):
            self.sync_task(task_id)
        self._tries = {name: tries for name, tries in self._tries.items() if name in self._again}
        if deliveries:
            close_deliveries(self.core, self.forge.name, deliveries)
        if position is not None:
            self._save("system_state", f"{self.forge.name}_cursor", position)
        return more

    def _changed(self) -> tuple[list[str], int | None, bool]:
        """The tasks of the forge that the log names, its position, and whether there is more."""
        with self.core.store.read() as view:
            cursor = view.rows("system_state").get(f"{self.forge.name}_cursor") or 0
            batch = view.events(cursor, MAX_EVENTS)
        named = (each.subject or each.stream for each in batch if level_of(each.name) == "task")
        found = [each for each in dict.fromkeys(named) if each.startswith(f"{self.forge.name}.")]
        return found, batch[-1].position if batch else None, len(batch) == MAX_EVENTS

    def _of_deliveries(self, deliveries: Iterable[Delivery]) -> list[str]:
        """The tasks that deliveries are about. A push to another branch may be about all."""
        found: list[str] = []
        for _, named in deliveries:
            own = [each.removeprefix(BRANCH) for each in named.branches if each.startswith(BRANCH)]
            others = len(own) < len(named.branches)
            found += own
            found += [each for number in named.numbers for each in self._of(named.repo, number)]
            if others:
                found += live_tasks(self.core, self.forge.name)
        return found

    def _of(self, repo: str, number: int) -> list[str]:
        """The task of a pull request, and that of an issue, with this number."""
        name = self._row(repo, number)
        with self.core.store.read() as view:
            rows = view.rows_under(TABLE, name)
        return [str(rows[name])] if name in rows else []

    def _row(self, repo: str, number: int) -> str:
        return f"{self.forge.name}:number:{repo}#{number}"

    # -- issues ----------------------------------------------------------------------------

    def _take_issues(self, deliveries: Iterable[Delivery], *, poll: bool) -> None:
        found = {Place(named.repo, each) for _, named in deliveries for each in named.numbers}
        with self.core.store.read() as view:
            now_us = view.now()
        if poll:
            for repo in self.config.repositories:
                listed = self.forge.issues(repo, self._issues_since)
                found |= {Place(repo, issue.number) for issue in listed}
            self._issues_since = views.utc(now_us - OVERLAP_US)
        if now_us >= self._refused_until:
            found |= self._refused
            self._refused = set()
        for place in sorted(found):
            self._take_or_keep(place, now_us)

    def _take_or_keep(self, place: Place, now_us: int) -> None:
        """Take an issue; while a quota of the project is reached, keep it for later."""
        if now_us < self._refused_until:
            self._refused.add(place)
            return
        wait_s = self.take_issue(*place)
        if wait_s:
            self._refused.add(place)
            self._refused_until = now_us + wait_s * 1_000_000

    def take_issue(self, repo: str, number: int) -> int:
        """Make an issue a task if a person has asked for it.

        Returns the seconds after which to try again, if a quota has refused it; otherwise 0.
        """
        self._check_leader()
        try:
            issue = self.forge.issue(repo, number)
            if issue is not None and asks_for_task(issue, self.config):
                intent = self.config.repositories[repo]
                task_id = add_task(self.core, self.forge.name, issue, intent)
                self._save(TABLE, self._row(repo, number), task_id)
        except (ForgeRefused, Refused, Invalid, TooMany) as error:
            log.warning("%s: issue %s#%s: %s", self.forge.name, repo, number, error)
            if isinstance(error, TooMany):
                return error.retry_after_s
            return FULL_S if isinstance(error, Refused) and error.code == STORAGE_QUOTA else 0
        return 0

    # -- one task --------------------------------------------------------------------------

    def sync_task(self, task_id: str) -> None:
        """Bring one task and its pull request into agreement."""
        self._check_leader()
        found = read_task(self.core, self.forge.name, task_id)
        if found is None:
            return
        try:
            self._sync(found)
        except (ForgeRefused, Refused, Invalid, NotFound, TooLarge) as error:
            # It concerns this task alone: the others go on.
            log.warning("%s: task %s: %s", self.forge.name, task_id, error)
            if found.state in ("draft", "pushed", *REVIEWED):
                self._send(found, Sent("task_needs_person", str(error)))

    def _sync(self, found: ForgeTask) -> None:
        if question_of(found) is not None:
            issue = self.forge.issue(*found.place)
            if issue is not None:
                sync_question(self.core, self.forge, found, issue)
        if found.pushed is None:
            if found.state == "draft":
                self._send(found, Sent("task_accepting"))
            return
        request = self._request(found, found.pushed)
        if request is None:
            return
        comments = Comments(self.core, self.forge, found, request)
        if request.state == "open":
            comments.take()
        sent = self._event(found, found.pushed, request)
        if sent is not None:
            self._send(found, sent, request)
        comments.give()
        if request.state == "open":
            self._show_status(found, request)
            self._merge(found, found.pushed, request)

    def _request(self, found: ForgeTask, pushed: Pushed) -> PullRequest | None:
        """The pull request of the task; it is opened if there is none."""
        request = self.forge.request(found.place.repo, pushed.branch)
        if request is None and found.state == "pushed":
            self._open(found, pushed)
            request = self.forge.request(found.place.repo, pushed.branch)
        if request is not None:
            row = self._row(request.repo, request.number)
            if not self._of(request.repo, request.number):
                self._save(TABLE, row, found.task.id)
        elif found.state == "draft":
            self._send(found, Sent("task_accepting"))
        elif found.state in REVIEWED:
            text = f"{found.place.repo} has no pull request of the branch {pushed.branch} any more."
            self._send(found, Sent("task_needs_person", text))
        return request

    def _open(self, found: ForgeTask, pushed: Pushed) -> None:
        if self.forge.branch_head(found.place.repo, pushed.branch) is None:
            text = f"{found.place.repo} has no branch {pushed.branch} any more: it was deleted"
            raise ForgeRefused(404, text)
        body = marked(f"Closes #{found.place.issue}.", f"task {found.task.id}")
        self._check_leader()
        new = NewRequest(found.title or found.task.id, body, pushed.branch)
        self.forge.open_request(found.place.repo, new)

    def _event(self, found: ForgeTask, pushed: Pushed, request: PullRequest) -> Sent | None:
        if found.phase is not Phase.IDLE:
            if request.state == "closed":
                self._cancel(found, request)
            return None
        unread = Comments(self.core, self.forge, found, request).unread()
        sent = next_event(found.state, pushed, request, unread=unread)
        if sent is not None:
            return sent
        if found.state == "draft":
            return Sent("task_accepting")
        if found.state == "pushed":
            return self._stale_head(found, pushed, request)
        if request.conflict is None:
            self._read_again(found)
        return None

    def _stale_head(self, found: ForgeTask, pushed: Pushed, request: PullRequest) -> Sent | None:
        """The request does not show the pushed commit: not yet, or because others have pushed."""
        if self.forge.branch_head(request.repo, pushed.branch) == pushed.commit:
            self._read_again(found)
            return None
        return Sent("task_needs_person", foreign_head(request, pushed))

    def _read_again(self, found: ForgeTask) -> None:
        """Read the request again in the next pass, a limited number of times."""
        tries = self._tries.get(found.task.id, 0) + 1
        self._tries[found.task.id] = tries
        if tries <= MAX_AGAIN:
            self._again.add(found.task.id)

    def _cancel(self, found: ForgeTask, request: PullRequest) -> None:
        self._do(c.CancelTask(found.task.id, closed(request)))

    # -- changing the task -----------------------------------------------------------------

    def _send(self, found: ForgeTask, sent: Sent, request: PullRequest | None = None) -> None:
        """Send an event, if the task is still where it was when the forge was read."""
        now = read_task(self.core, self.forge.name, found.task.id)
        if now is None or (now.state, now.pushed) != (found.state, found.pushed):
            return
        if sent.event == "task_checks_failed" and request is not None:
            self._keep_logs(now, request)
            now = read_task(self.core, self.forge.name, found.task.id) or now
        try:
            self._do(c.SendEvent(found.task.id, sent.event, sent.comment, now.version))
        except Refused as refusal:
            if refusal.code != "rounds_used":
                raise
            text = f"{refusal.message} {sent.comment}"
            self._do(c.SendEvent(found.task.id, "task_needs_person", text, now.version))

    def _do(self, command: c.TaskCommand) -> None:
        try:
            self.core.engine.do(command, self._caller.actor)
        except Refused as refusal:
            if refusal.code not in ("version_conflict", "illegal_transition"):
                raise
            log.info("%s: task %s has changed meanwhile", self.forge.name, command.task_id)

    def _keep_logs(self, found: ForgeTask, request: PullRequest) -> None:
        """Store what failed checks have printed as evidence of the agent's last run."""
        for check in request.checks:
            if check.state == "failed" and check.log and found.run_id is not None:
                plain = re.sub(r"[^A-Za-z0-9_-]+", "-", check.name)[:80].strip("-") or "check"
                file, text = f"checks/{plain}-{request.head[:12]}.log", check.log.encode()
                try:
                    attach_evidence(self.core, self._caller, found.run_id, file, io.BytesIO(text))
                except Refused as refusal:
                    if refusal.code == STORAGE_QUOTA:
                        log.warning("%s: %s is left out: %s", self.forge.name, file, refusal)
                    elif refusal.code != "evidence_exists":
                        raise

    # -- changing the forge ----------------------------------------------------------------

    def _show_status(self, found: ForgeTask, request: PullRequest) -> None:
        now = read_task(self.core, self.forge.name, found.task.id)
        if now is None:
            return
        status = WAITING if now.state in REVIEWED else WORKING
        if now.state == "needs_person":
            status = Status("failed", f"{HELD}{now.task.comment or ''}"[:LONGEST_STATUS])
        if self.forge.status(request.repo, request.head) != status:
            self._check_leader()
            self.forge.set_status(request.repo, request.head, status)

    def _merge(self, found: ForgeTask, pushed: Pushed, request: PullRequest) -> None:
        if self.config.merge and can_be_merged(found.state, pushed, request):
            self._check_leader()
            self.forge.merge(request, self.config.merge)
            self._read_again(found)

    def _save(self, table: str, row: str, value: object) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows(table, {row: value}))
