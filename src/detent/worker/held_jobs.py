"""The jobs that a worker holds, and how a claimed job becomes a run."""

from collections.abc import Callable, Iterator

from detent.worker.active_run import Attempt, Hold
from detent.worker.app import App
from detent.worker.intent import Declared, Intent
from detent.worker.run_files import RunFiles


class Holds:
    """Held jobs by id: what heartbeats renew. Safe to use from any thread."""

    def __init__(self) -> None:
        self._held: dict[str, Hold] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._held.values()))

    def add(self, hold: Hold) -> None:
        self._held[hold.grant.job_id] = hold

    def drop(self, hold: Hold) -> None:
        """It has left our hands. A later claim of the same job may stand there: that one stays."""
        if self._held.get(hold.grant.job_id) is hold:
            self._held.pop(hold.grant.job_id, None)

    def find(self, job_id: str, fence: int) -> Hold | None:
        hold = self._held.get(job_id)
        return hold if hold is not None and hold.grant.fence == fence else None

    def grants(self) -> list[tuple[str, int]]:
        return [(hold.grant.job_id, hold.grant.fence) for hold in self]


def attempt_of(hold: Hold, app: App, files: Callable[[str], RunFiles]) -> Attempt:
    """The run of a claimed job that has no plan."""
    job = hold.job
    run_id = job.run_id or ""
    intent = app.intents.get(job.intent) or Intent(app, job.intent, Declared())
    return Attempt(hold, run_id, intent, files(run_id), payload=hold.payload, number=job.attempt)
