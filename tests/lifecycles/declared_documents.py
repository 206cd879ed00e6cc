"""Documents of lifecycles for tests, and a world whose commands they decide."""

import tomllib
from pathlib import Path

from detent.kernel import commands as c
from detent.kernel.decide import decide
from detent.kernel.lifecycle_document import read
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.world import World

DOCUMENTS = Path(__file__).parent / "tla_documents"
PERSON, WORKER = c.Actor("person"), c.Actor("worker:w")


def document(name: str) -> TaskLifecycle:
    return read(tomllib.loads((DOCUMENTS / f"{name}.toml").read_text(encoding="utf-8")))


class Decisions:
    """A world of one lifecycle, changed by commands."""

    def __init__(self, name: str) -> None:
        self.lifecycle = document(name)
        self.world = World(lifecycles={name: self.lifecycle})

    def do(self, command: c.Command, actor: c.Actor = PERSON, now: int = 0) -> object:
        draft = decide(self.world, command, now, actor)
        self.world.merge(draft, draft.records)
        return draft.answer

    def submit(self, task_id: str, **more: object) -> None:
        name = self.lifecycle.id
        self.do(c.SubmitTask(task_id, "p", name, "build", "cli", **more))  # type: ignore[arg-type]

    def state(self, task_id: str) -> str:
        return self.world.tasks[task_id].state

    def claim(self, task_id: str) -> tuple[c.Grant, str]:
        """Claim the job of a task; return the grant and the run."""
        job_id = self.world.tasks[task_id].job_id or ""
        grant = self.do(c.ClaimJob(job_id, "w", "n"), WORKER)
        assert isinstance(grant, c.Grant)
        return grant, self.world.jobs[job_id].run_id or ""
