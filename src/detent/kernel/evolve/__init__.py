"""How an event changes an entity: `evolve(entity, record) -> entity`, a function for each event.

The lifecycle's table alone says whether a state event is legal and where it leads; the functions
of this package fill in the rest. Deciding and rebuilding rows from the log both go through here,
so they cannot disagree.
"""

from detent.kernel.evolve.job import evolve_job
from detent.kernel.evolve.limit import evolve_limits
from detent.kernel.evolve.run import evolve_run
from detent.kernel.evolve.step import evolve_step
from detent.kernel.evolve.task import evolve_task, task_created

__all__ = [
    "evolve_job",
    "evolve_limits",
    "evolve_run",
    "evolve_step",
    "evolve_task",
    "task_created",
]
