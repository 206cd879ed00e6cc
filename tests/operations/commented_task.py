"""A review task with a diff, for tests of comments: its rounds, and callers who review it."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.operations.registry import Caller, Scope
from tests.operations.installation import LocalInstallation

REVIEWER = frozenset({Scope.READ, Scope.REVIEW})
ANN, BEN = Caller("person:ann", REVIEWER), Caller("person:ben", REVIEWER)
READER = Caller("person:eve", frozenset({Scope.READ}))


def file_diff(path: str, before: list[str], after: list[str]) -> str:
    """The diff of one file with one hunk: all old lines, then all new ones."""
    old, new = f"-1,{len(before)}" if before else "-0,0", f"+1,{len(after)}"
    mode = [] if before else ["new file mode 100644"]
    lines = [
        f"diff --git a/{path} b/{path}",
        *mode,
        f"--- a/{path}" if before else "--- /dev/null",
        f"+++ b/{path}",
        f"@@ {old} {new} @@",
        *(f"-{each}" for each in before),
        *(f"+{each}" for each in after),
    ]
    return "".join(f"{each}\n" for each in lines)


BINARY = """\
diff --git a/logo.png b/logo.png
new file mode 100644
Binary files /dev/null and b/logo.png differ
"""
FIRST = file_diff("app.py", ["a = 1", "b = 2"], ["a = 1", "b = 3", "c = 4"])
#: The comment on `b = 3` moves down by one line; `other.py` is new.
SECOND = file_diff("app.py", ["a = 1", "b = 2"], ["import x", "a = 1", "b = 3"]) + file_diff(
    "other.py", [], ["x = 1"]
)


class CommentedTask:
    """A task whose runs leave diffs: a new one, or the one with this id."""

    def __init__(
        self, installation: LocalInstallation, task_id: str | None = None, **fields: Any
    ) -> None:
        self.here = installation
        self.id = task_id or installation.submit(
            **{"intent": "review", "lifecycle": "review", **fields}
        )

    def round(self, diff: str | None = FIRST) -> str:
        """A run that leaves this diff and completes; the SHA-256 of the diff."""
        (claimed,) = self.here.claim()
        digest = "" if diff is None else self.leave(claimed, diff)
        self.here.complete(claimed)
        return digest

    def leave(self, claimed: Claimed, diff: str) -> str:
        blob = self.here.core.store.blobs.put(BytesIO(diff.encode()))
        evidence = ("changes.diff", "unknown", blob.sha256, blob.size, "text/x-diff")
        self.here.report(c.AddEvidence(claimed.grant, str(claimed.job.run_id), *evidence))
        return blob.sha256

    def call(self, name: str, caller: Caller = ANN, /, **arguments: Any) -> Any:
        return self.here.call(name, caller, task_id=self.id, **arguments)

    def comment(self, diff: str, caller: Caller = ANN, /, **fields: Any) -> str:
        """Add a comment on `b = 3` of `app.py`; its id."""
        return str(self.call("add_comment", caller, **lines(diff, **fields))["comment_id"])

    def listed(self, caller: Caller = ANN, /, **given: Any) -> Any:
        return self.call("task_comments", caller, **given)

    def state(self) -> tuple[str, int]:
        task, version = self.here.core.task(ANN, self.id)
        return task.state, version

    def events(self) -> list[str]:
        with self.here.core.store.read() as view:
            return [each.name for each in view.events(0, 1_000, stream=self.id)]


def lines(diff: str, /, **fields: Any) -> Mapping[str, Any]:
    where = {"file": "app.py", "side": "after", "start": 2, "end": 2}
    return {"diff": diff, "text": "Why 3?", **where, **fields}
