"""Comments on lines, between a pull request and the task.

Those of reviewers become comments of the task, and the replies of the agent become replies at the
forge. Each of them appears once.
"""

from collections.abc import Callable
from typing import NamedTuple

from detent.errors import Invalid, NotFound, TooLarge
from detent.integrations.forges.forge import Forge, LineThread, Note, PullRequest
from detent.integrations.forges.forge_task import ForgeTask
from detent.integrations.forges.markers import has_marker, is_own, marked
from detent.kernel.commands import Actor
from detent.kernel.commands import review_commands as rc
from detent.kernel.decide.comments import LONGEST_TEXT
from detent.operations.comment_threads import Thread, threads_of
from detent.operations.context import Core
from detent.operations.registry import Caller
from detent.operations.review_comments import new_comment
from detent.operations.review_diffs import TaskDiff, read_diff
from detent.operations.reviewed_diff import diffs_of_task
from detent.review.comment_lines import Lines, anchor_in
from detent.review.comment_places import Anchor


class Comments(NamedTuple):
    """The comments of a task and of its pull request."""

    core: Core
    forge: Forge
    found: ForgeTask
    request: PullRequest
    #: Called before each request that changes something.
    check_leader: Callable[[], object]

    # -- from the forge --------------------------------------------------------------------

    def take(self) -> None:
        """Add what reviewers have written to the task, and resolve what they have resolved."""
        known = self._known()
        diff = self._diff()
        for thread in self.request.threads:
            first = thread.notes[0]
            if not first.trusted or is_own(first):
                continue
            comment_id = self._id(first)
            if comment_id not in known and diff is not None and not thread.resolved:
                self._add(comment_id, thread, diff)
            elif comment_id not in known:
                continue
            self._add_replies(comment_id, thread, known.get(comment_id))
            if thread.resolved and comment_id in known and known[comment_id].open:
                command = rc.ResolveComment(self.found.task.id, comment_id)
                self.core.engine.do(command, Caller(self.forge.name).actor)

    def unread(self) -> bool:
        """Whether a person has written on an open comment since the agent's last run began."""
        return any(
            at > self.found.run_at
            for thread in self._known().values()
            if thread.open
            for at in (thread.at, *(each.at for each in thread.replies if each.run_id is None))
        )

    def _known(self) -> dict[str, Thread]:
        with self.core.store.read() as view:
            return {each.id: each for each in threads_of(view, self.found.task.id)}

    def _diff(self) -> TaskDiff | None:
        """The diff under review; comments of a task are about a diff."""
        with self.core.store.read() as view:
            diffs = diffs_of_task(view, self.found.task)
        return diffs[-1] if diffs else None

    def _id(self, note: Note) -> str:
        return f"{self.forge.name}-{note.id}"

    def _add(self, comment_id: str, thread: LineThread, diff: TaskDiff) -> None:
        first = thread.notes[0]
        anchor, text = self._anchor(thread, diff)
        comment = new_comment(comment_id, diff.run_id, anchor, text[:LONGEST_TEXT])
        self.core.engine.do(rc.AddComments(self.found.task.id, (comment,)), self._actor(first))

    def _anchor(self, thread: LineThread, diff: TaskDiff) -> tuple[Anchor, str]:
        """The lines in the diff under review; if it does not show them, the whole file."""
        text = thread.notes[0].body
        lines = Lines(diff.sha256, thread.file, thread.side, thread.start, thread.end)
        try:
            return anchor_in(read_diff(self.core, diff), lines), text
        except (Invalid, NotFound, TooLarge):
            anchor = Anchor(diff.sha256, thread.file, thread.side, 0, 0, ())
            where = f"lines {thread.start} to {thread.end}" if thread.end else "the whole file"
            return anchor, f"About {where} of {thread.file}: {text}"

    def _add_replies(self, comment_id: str, thread: LineThread, known: Thread | None) -> None:
        """Add the other comments of the thread. A known one may have another author now: people
        change the names of their accounts."""
        replies = set() if known is None else {each.id for each in known.replies}
        for note in thread.notes[1:]:
            new = self._id(note) not in replies
            if new and note.trusted and not is_own(note) and note.body.strip():
                reply = rc.NewReply(comment_id, self._id(note), note.body[:LONGEST_TEXT])
                command = rc.AddComments(self.found.task.id, replies=(reply,))
                self.core.engine.do(command, self._actor(note))

    def _actor(self, note: Note) -> Actor:
        return Caller(f"{self.forge.name}:{note.author}").actor

    # -- to the forge ----------------------------------------------------------------------

    def give(self) -> None:
        """Write the agent's replies to the forge, and resolve what was resolved in detent."""
        known = self._known()
        for thread in self.request.threads:
            comment = known.get(self._id(thread.notes[0]))
            if comment is None:
                continue
            for reply in comment.replies:
                key = f"reply {reply.id}"
                written = has_marker(thread.notes, key, self.forge.account())
                if reply.run_id is not None and not written:
                    self.check_leader()
                    self.forge.reply(self.request, thread, marked(reply.text, key))
            if not comment.open and not thread.resolved:
                self.check_leader()
                self.forge.resolve(self.request, thread)
