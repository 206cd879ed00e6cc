"""Brings tasks and a forge into agreement: its issues as `IssueSync` does, and pull requests.

As with comments, the forge itself records what detent has written to it, so that a crash at any
point repeats nothing.
"""

import io
import logging
import re
from collections.abc import Callable

from detent.engine.project_usage import STORAGE_QUOTA
from detent.errors import Refused
from detent.integrations.forges.forge import Forge, ForgeRefused, NewRequest, PullRequest, Status
from detent.integrations.forges.forge_config import ForgeConfig
from detent.integrations.forges.forge_task import BRANCH, ForgeTask, read_task
from detent.integrations.forges.issue_sync import TASK_ERRORS, IssueSync, Kind
from detent.integrations.forges.markers import marked
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
from detent.kernel.task_lifecycle import Phase
from detent.operations.context import Core
from detent.operations.evidence import attach_evidence
from detent.operations.forge_hook import Named
from detent.operations.registry import Caller

log = logging.getLogger("detent.forges")

#: How often a pull request is read again because the forge has not computed a conflict yet.
MAX_AGAIN = 30
LONGEST_STATUS = 140
WORKING = Status("pending", "The agent works on this pull request.")
WAITING = Status("passed", "Waits for checks and reviews.")
HELD = "A person must decide: "


class ForgeSync(IssueSync):
    """The passes of one leader for issues and pull requests."""

    def __init__(
        self,
        core: Core,
        forge: Forge,
        config: ForgeConfig,
        check_leader: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(core, forge, config, check_leader)
        self.forge, self._method = forge, config.merge
        self._caller = Caller(forge.name)
        #: How often each of the tasks in `_again` was read again.
        self._tries: dict[str, int] = {}

    def run(self, now: int, /, *, fresh: bool) -> bool:
        more = super().run(now, fresh=fresh)
        self._tries = {name: tries for name, tries in self._tries.items() if name in self._again}
        return more

    def tasks_of(self, named: Named) -> list[str]:
        """The tasks that a delivery is about. A push to another branch may be about all."""
        own = [each.removeprefix(BRANCH) for each in named.branches if each.startswith(BRANCH)]
        others = self.live_tasks() if len(own) < len(named.branches) else []
        known = (self.task_of(Kind.REQUEST, named.repo, each) for each in named.requests)
        return [*own, *super().tasks_of(named), *filter(None, known), *others]

    # -- one task --------------------------------------------------------------------------

    def sync_task(self, task_id: str) -> None:
        """Bring one task, its issue and its pull request into agreement."""
        found = read_task(self.core, self.forge.name, task_id)
        if found is None:
            return
        try:
            self._sync(found)
        except TASK_ERRORS as error:
            log.warning("%s: task %s: %s", self.forge.name, task_id, error)
            if found.state in ("draft", "pushed", *REVIEWED):
                self._send(found, Sent("task_needs_person", str(error)))

    def _sync(self, found: ForgeTask) -> None:
        self.sync_question(found.task, found.place)
        if found.pushed is None:
            if found.state == "draft":
                self._send(found, Sent("task_accepting"))
            return
        request = self._request(found, found.pushed)
        if request is None:
            return
        comments = Comments(self.core, self.forge, found, request, self._check_leader)
        if request.state == "open":
            comments.take()
        sent = self._event(found, found.pushed, request, comments)
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
            if self.task_of(Kind.REQUEST, request.repo, request.number) is None:
                self.note_task(Kind.REQUEST, request.repo, request.number, found.task.id)
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

    def _event(
        self, found: ForgeTask, pushed: Pushed, request: PullRequest, comments: Comments
    ) -> Sent | None:
        if found.phase is not Phase.IDLE:
            if request.state == "closed":
                self._cancel(found, request)
            return None
        sent = next_event(found.state, pushed, request, unread=comments.unread())
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
        if self._method and can_be_merged(found.state, pushed, request):
            self._check_leader()
            self.forge.merge(request, self._method)
            self._read_again(found)
