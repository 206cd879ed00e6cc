"""A review in a terminal: show the diff, take comments in an editor, and ask for the verdict."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from detent import private_files
from detent.cli import editor, output, pager
from detent.cli.annotated_diff import AnnotatedDiff, where_text
from detent.cli.connection import Connection
from detent.cli.diff import with_lines
from detent.cli.diff_lines import file_lines
from detent.cli.draft_requests import Request, requests_of, send
from detent.cli.edit_file import Edits, UnreadableEdits, parse, write
from detent.cli.review_text import review_lines
from detent.cli.target import own_directory
from detent.cli.task_selection import print_outcome
from detent.errors import DetentError
from detent.quantity import quantity

#: The directory in the data directory with texts that are not yet stored as drafts.
TEXTS = "reviews"
LATER = "later"
#: By choice: the text of the prompt, and the action of the task that must be legal.
CHOICES: Mapping[str, tuple[str, str | None]] = {
    "edit": ("(e)dit comments", None),
    "show": ("(s)how again", None),
    "publish": ("(p)ublish drafts", None),
    "accept": ("(a)ccept", "accept"),
    "changes": ("request (c)hanges", "reject"),
    "reject": ("(r)eject", "reject"),
    LATER: ("(l)ater", None),
}
VERDICTS = {"accept": "accept_task", "changes": "request_changes", "reject": "reject_task"}


class Shown:
    """A review as it was read: the diff that a verdict is about, and its comments."""

    def __init__(self, detent: Connection, task_id: str) -> None:
        self.review: Mapping[str, Any] = detent.call("review", task_id=task_id)
        self.task_id = str(self.review["task_id"])
        self.diff = self._annotated(detent) if self.review["diff"] is not None else None

    def _annotated(self, detent: Connection) -> AnnotatedDiff:
        """The diff with its lines and comments."""
        sha256 = self.review["diff"]["sha256"]
        notes = detent.call("task_comments", task_id=self.task_id, diff=sha256)
        files = with_lines(detent, self.review, self.review["diff"]["files"])
        title = self.review["title"] or self.review["intent"]
        listed = (files, notes["comments"], notes["drafts"])
        return AnnotatedDiff(self.task_id, title, sha256, *listed)

    def to_json(self) -> dict[str, Any]:
        if self.diff is None:
            return {**self.review, "comments": [], "drafts": []}
        diff = {**self.review["diff"], "files": self.diff.files}
        notes = {"comments": self.diff.comments, "drafts": self.diff.drafts}
        return {**self.review, "diff": diff, **notes}

    def print(self) -> None:
        """Show everything; on a terminal in a pager."""
        pager.show(review_lines(self.review, self.diff))

    def judged(self, diff: str | None = None) -> dict[str, Any]:
        """What a verdict is about: a diff, or the version of a task without one."""
        named = diff or (self.diff and self.diff.sha256)
        about = {"seen": self.review["version"]} if named is None else {"diff": named}
        return {"task_id": self.task_id, **about}


class ReviewSession:
    """Asks a person what to do, until there is a verdict or the person ends the review."""

    def __init__(self, detent: Connection, shown: Shown) -> None:
        self.detent, self.shown = detent, shown
        self.directory = own_directory() / TEXTS
        #: A comment on the whole work, for the verdict.
        self.general = ""
        #: Whether all that is in the file is on the server or in `general`.
        self.stored = False

    @property
    def file(self) -> Path:
        """The file that is edited: one for each diff, so that a text stays with its lines."""
        assert self.shown.diff is not None
        name = quote(self.shown.task_id, safe="")
        return self.directory / f"{name}-{self.shown.diff.sha256[:12]}.txt"

    def run(self) -> None:
        """Show the review and carry out choices until it has ended."""
        self.shown.print()
        self._recover()
        try:
            while not self._carry_out(self._ask()):
                pass
        except click.Abort:
            output.print_note("\nThere is no verdict. Drafts that were saved stay on the server.")
            raise

    def _recover(self) -> None:
        """Find the text of an earlier review that was not sent."""
        if self.shown.diff is None or not self.file.exists():
            return
        try:
            edits = parse(self.shown.diff, self.file.read_bytes().decode())
            self.stored = not list(requests_of(self.shown.diff, edits))
        except (UnicodeDecodeError, UnreadableEdits):
            self.stored = False
        if self.stored:
            self.general = edits.general or self.general
        if not self.stored or self.general:
            output.print_note(
                f"Text of an earlier review was not sent: {self.file}. Edit opens it."
            )

    def _ask(self) -> str:
        """The choice of the person: a word or its first letter."""
        why = self.detent.call("why", task_id=self.shown.task_id)
        legal = {
            name: text
            for name, (text, action) in CHOICES.items()
            if action is None or action in why["actions"]
        }
        if self.shown.diff is None:
            del legal["edit"], legal["publish"]
        choices: list[str] = [*legal, *why["events"]]

        def read(given: str) -> str:
            named = [each for each in choices if each.startswith(given.strip().lower())]
            if len(named) != 1:
                raise click.UsageError(f"Give one of: {', '.join(choices)}.")
            return named[0]

        text = ", ".join((*legal.values(), *why["events"]))
        return str(click.prompt(text, default=LATER, value_proc=read))

    def _carry_out(self, choice: str) -> bool:
        """Carry out a choice; whether the review has ended. An error is printed."""
        try:
            if choice == "edit":
                self._edit()
            elif choice == "show":
                self._reload()
                self.shown.print()
            elif choice == "publish":
                self._publish()
            elif choice == LATER:
                self._leave()
                return True
            else:
                self._decide(choice)
                return True
        except DetentError as error:
            output.print_error(error)
            if error.code == "diff_changed":
                self._show_difference()
        return False

    # -- comments ----------------------------------------------------------------------------

    def _edit(self) -> None:
        """Open the diff in the editor; store what was written as drafts."""
        assert self.shown.diff is not None
        self._write_file()
        self.stored = False
        while True:
            editor.edit(self.file)
            try:
                text = self.file.read_bytes().decode()
                edits = parse(self.shown.diff, text)
                break
            except UnicodeDecodeError:
                output.print_note(f"{self.file} is not UTF-8 text.")
            except UnreadableEdits as error:
                for each in error.problems:
                    output.print_note(f"{self.file}:{each.line}: {each.message}.")
            if not click.confirm("No draft was changed. Edit it again?", default=True):
                output.print_note(f"Your text stays in {self.file}.")
                return
        self._store(edits if text.strip() else Edits(self.general))

    def _store(self, edits: Edits) -> None:
        """Store edits as drafts; the comment on the whole work is kept for the verdict."""
        assert self.shown.diff is not None
        requests = list(requests_of(self.shown.diff, edits))
        try:
            done = send(self.detent, self.shown.diff, requests)
        except DetentError as error:
            if error.code == "diff_changed":
                self._carry_over(requests, edits.general)
            else:
                output.print_note(f"Not all drafts were saved. Your text stays in {self.file}.")
            raise
        self.general, self.stored = edits.general, True
        self._delete_file()
        self._reload()
        self._keep_general()
        output.print_text(done)

    def _carry_over(self, requests: Sequence[Request], general: str) -> None:
        """Keep comments that are refused, because the diff has changed, for the next one.

        They become parts of the comment on the whole work, with their files and lines.
        """
        assert self.shown.diff is not None
        send(self.detent, self.shown.diff, (each for each in requests if not each.names_diff()))
        saved = self.detent.call("task_comments", task_id=self.shown.task_id)["drafts"]
        known = {each["id"] for each in saved}
        rest = [each.arguments for each in requests if each.names_diff()]
        texts = (
            f"{where_text(each)}: {each['text']}" for each in rest if each["draft_id"] not in known
        )
        self.general, self.stored = "\n\n".join(filter(None, (general, *texts))), True
        output.print_note(
            "Comments on lines of the earlier diff are part of the comment on the whole work now. "
            "Edit it to move them to their lines."
        )

    def _keep_general(self) -> None:
        """Keep the comment on the whole work in the file: the server has no draft of it."""
        if self.general and self.shown.diff is not None:
            self._write_file()

    def _write_file(self) -> None:
        """Write the file unless it exists: it may have text that is stored nowhere else."""
        assert self.shown.diff is not None
        if not self.file.exists():
            private_files.make_directory(self.directory)
            private_files.write_text(self.file, write(self.shown.diff, self.general))

    def _delete_file(self) -> None:
        if self.stored and self.shown.diff is not None:
            self.file.unlink(missing_ok=True)

    def _publish(self) -> None:
        made = self.detent.call("publish_drafts", task_id=self.shown.task_id)
        self._reload()
        output.print_text(f"{quantity(len(made['published']), 'comment')} published.")

    def _reload(self) -> None:
        """Read the comments again. The diff that was shown stays the one under review here."""
        found = Shown(self.detent, self.shown.task_id)
        if found.judged().get("diff") == self.shown.judged().get("diff"):
            self.shown = found

    # -- the verdict -------------------------------------------------------------------------

    def _decide(self, choice: str) -> None:
        publish = choice != "changes" and self._confirm_publication()
        if not self.general:
            self.general = click.prompt("Comment on the whole work", default="", show_default=False)
        operation = VERDICTS.get(choice, "send_event")
        event = {} if choice in VERDICTS else {"event": choice}
        about = {**self.shown.judged(), **event, "comment": self.general or None}
        moved = self.detent.call(operation, **about)
        if publish:
            self._publish()
        self._delete_file()
        print_outcome(moved, as_json=False)

    def _confirm_publication(self) -> bool:
        """Whether to publish drafts with a verdict; a request for changes always does."""
        drafts = self._drafts()
        which = "your draft" if drafts == 1 else f"your {drafts} drafts"
        return drafts > 0 and click.confirm(f"Publish {which} too?", default=True)

    def _drafts(self) -> int:
        return 0 if self.shown.diff is None else len(self.shown.diff.drafts)

    def _show_difference(self) -> None:
        """Show what changed since the diff that was shown; the new one is then under review."""
        before = self.shown
        self._delete_file()
        self.shown = Shown(self.detent, before.task_id)
        self._recover()
        self._keep_general()
        if self.shown.diff is None or before.diff is None:
            return
        since = before.diff.sha256
        between = self.detent.call("review_between", task_id=before.task_id, since=since)
        changed = with_lines(self.detent, self.shown.review, between["files"], since)
        output.print_note("The changes since the diff that you have read:")
        pager.show(line for each in changed for line in file_lines(each))

    def _leave(self) -> None:
        drafts = quantity(self._drafts(), "draft")
        output.print_text(f"There is no verdict yet. You have {drafts}.")
        self._keep_general()
        if self.general and self.shown.diff is not None:
            output.print_text(f"The comment on the whole work stays in {self.file}.")
