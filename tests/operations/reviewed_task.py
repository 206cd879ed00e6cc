"""A task in review whose runs leave diffs, for tests of reviews."""

import hashlib
from io import BytesIO
from typing import Any

from detent.kernel import commands as c
from detent.kernel.evidence_types import type_of
from tests.operations.installation import LocalInstallation


def patch(path: str, *lines: str) -> str:
    """The diff of a file whose only line is replaced."""
    added = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1 +1,{len(lines)} @@\n-old\n{added}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class ReviewedTask:
    """Submits a task, executes its runs and requests changes."""

    def __init__(self, installation: LocalInstallation, **fields: Any) -> None:
        self.installation = installation
        self.id = installation.submit(**fields)

    def work(self, **files: str | bytes) -> str:
        """One run that leaves these files; `changes_diff` is `changes.diff`."""
        (claimed,) = self.installation.claim()
        run_id = str(claimed.job.run_id)
        for name, content in files.items():
            self._keep(claimed.grant, run_id, name.replace("_", "."), content)
        usage = c.ChargeRun(claimed.grant, run_id, 250_000, 100, 20)
        self.installation.report(usage)
        self.installation.clock.advance(seconds=2)
        self.installation.complete(claimed)
        return run_id

    def _keep(self, grant: c.Grant, run_id: str, name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        blob = self.installation.core.store.blobs.put(BytesIO(data))
        added = (name, type_of(name).value, blob.sha256, blob.size)
        self.installation.report(c.AddEvidence(grant, run_id, *added))

    def request_changes(self) -> None:
        self.installation.clock.advance(seconds=1)
        self.call("reject_task", comment="again", run=True)

    def call(self, name: str, *caller: Any, **arguments: Any) -> Any:
        return self.installation.call(name, *caller, task_id=self.id, **arguments)
