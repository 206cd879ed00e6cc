"""HeldJobs: the jobs that a worker has claimed and not yet reported."""

from collections.abc import Iterator

from detent.worker.active_run import HeldJob


class HeldJobs:
    """Held jobs by id; the heartbeat renews their leases. Safe to use from any thread."""

    def __init__(self) -> None:
        self._held: dict[str, HeldJob] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(list(self._held.values()))

    def add(self, held: HeldJob) -> None:
        self._held[held.grant.job_id] = held

    def drop(self, held: HeldJob) -> None:
        """Forget a job that has left this worker. A later claim of the same job stays."""
        if self._held.get(held.grant.job_id) is held:
            self._held.pop(held.grant.job_id, None)

    def find(self, job_id: str, fence: int) -> HeldJob | None:
        """The job under this fence, None if it is not held or was claimed again."""
        held = self._held.get(job_id)
        return held if held is not None and held.grant.fence == fence else None
