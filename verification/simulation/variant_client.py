"""A client that submits tasks with variants and chooses between them; others may do so too."""

from collections.abc import Iterator

from detent.kernel import commands as c
from detent.kernel.variants import VARIANT, VARIANTS
from verification.simulation.planned_work import INTENT
from verification.simulation.run_records import LEASE_US, ROLE
from verification.simulation.virtual_client import MAX_LIVE, PROJECT, Client

#: How long the job of the task waits while its variants work.
WAIT_US = 40 * LEASE_US


class VariantClient(Client):
    """Submits tasks with two or three variants, and chooses one of them, sometimes twice."""

    def __init__(self, *known: object) -> None:
        super().__init__(*known)  # type: ignore[arg-type]
        self._ways = {
            self._best_of: 6,
            self._choose: 12,
            self._signal: 4,
            self._answer: 4,
            self._push: 2,
            self._dismiss: 2,
            self._cancel: 1,
        }

    def _best_of(self) -> Iterator[None]:
        if len(self.process.auditor.live) >= MAX_LIVE:
            return
        task_id = f"{self.process.name}-{next(self._serial)}"
        lifecycle, count = self.rng.choice(("board", "review")), self.rng.randint(2, 3)
        known = (PROJECT, lifecycle, INTENT, "cli")
        options = {**ROLE.options, VARIANTS: count}
        yield from self._place(
            c.SubmitTask(task_id, *known, options=options, queue=True, delay=WAIT_US)
        )
        for number in range(1, count + 1):
            mark = {"number": number, "job_id": f"{task_id}-j1", "set": 1}
            variant = c.SubmitTask(
                f"{task_id}-v{number}",
                *known,
                parent_id=task_id,
                options={**ROLE.options, VARIANT: mark},
            )
            yield from self._place(variant)

    def _choose(self) -> Iterator[None]:
        """Mostly a variant that has ended well; now and then any, or by a run of the tree."""
        tasks = self.process.auditor.world.tasks
        found = [each for each in tasks.values() if VARIANTS in each.options]
        if not found:
            return
        task = self.rng.choice(found[-MAX_LIVE:])
        done = [
            child
            for child in self.process.auditor.world.children.get(task.id, ())
            if tasks[child].state in ("done", "completed")
        ]
        variant = self.rng.choice(done) if done and self.rng.random() < 0.8 else "2"
        yield  # another client may choose or cancel meanwhile
        own = task.root_id if self.rng.random() < 0.1 else None
        self.do(c.ChooseVariant(task.id, variant), own)
        yield
