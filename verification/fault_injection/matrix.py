"""The matrix: every failpoint under every action on one store, several cells at a time.

Each cell has a store, a directory and processes of its own; most of a cell is waiting.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from detent.failpoints import NAMES, Action
from detent.store.store_url import open_store
from verification.fault_injection import fault_cells
from verification.fault_injection.environment import Environment
from verification.fault_injection.fault_cells import SUBMISSIONS, Outcome
from verification.fault_injection.fault_scenes import SCENES, Scene
from verification.fault_injection.followed_tasks import LIFECYCLES
from verification.fault_injection.process_supervisor import ProcessSupervisor

if TYPE_CHECKING:  # a plain installation has no PostgreSQL
    from verification.postgres_server import Cluster

#: Cells in parallel: they wait for leases more than they work.
SIDE_BY_SIDE = 6

#: What the cells submit in turn: jobs without a task, and tasks of each lifecycle.
WORK = (*LIFECYCLES, "")

OnOutcome = Callable[[Outcome], None]
#: What is played; at which pass of the failpoint, or at the scene's own.
FaultCell = tuple[Scene, Action, int | None]


class Databases:
    """Databases of their own in one server, ready for use, made from one that was migrated."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self.template = f"faults_{uuid.uuid4().hex}"
        open_store(cluster.create_database(self.template)).close()

    @contextmanager
    def one(self, *, empty: bool = False) -> Iterator[str]:
        name = f"faults_{uuid.uuid4().hex}"
        yield self.cluster.create_database(name, **({} if empty else {"template": self.template}))
        self.cluster.drop_database(name)

    def close(self) -> None:
        self.cluster.drop_database(self.template)


def run(
    supervisor: ProcessSupervisor,
    where: Path,
    databases: Databases | None,
    wanted: Iterable[FaultCell],
    on_outcome: OnOutcome = lambda _: None,
) -> list[Outcome]:
    """Play cells side by side; without databases on SQLite files."""

    def play(number: int, scene: Scene, action: Action, count: int | None) -> Outcome:
        directory = where / f"{number}-{scene.point}-{action}"
        lifecycle = WORK[number % len(WORK)]
        with (
            nullcontext("")
            if databases is None
            else databases.one(empty=scene.role == "first") as url
        ):
            environment = Environment(supervisor, directory, url, lifecycle=lifecycle)
            outcome = fault_cells.run(environment, scene, action, count)
        on_outcome(outcome)
        return outcome

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        begun = [pool.submit(play, number, *each) for number, each in enumerate(wanted)]
        return [each.result() for each in begun]


def fault_cells_of(actions: Sequence[Action], seed: int | None = None) -> list[FaultCell]:
    """Every scene under these actions; a seed draws the order, and which pass is the one."""
    wanted = [(scene, action) for scene in SCENES for action in actions]
    if seed is None:
        return [(*each, None) for each in wanted]
    rng = Random(seed)
    rng.shuffle(wanted)
    return [(scene, action, _drawn(scene, rng)) for scene, action in wanted]


def _drawn(scene: Scene, rng: Random) -> int:
    """A worker passes most points more than once, and may have done before the pass comes; what a
    gateway passes before the scene's own count belongs to its start, and each request is a pass.
    """
    if scene.role == "worker":
        return rng.randint(1, max(2 * scene.count, 3))
    if scene.role == "gateway":
        return rng.randint(scene.count, scene.count + SUBMISSIONS // 2)
    return rng.randint(1, scene.count)


def together(action: Action) -> Iterator[FaultCell]:
    """As `fault_cells_of`, but with all faults that one process survives in the same cell.

    A kill or a stop is in a cell of its own.
    """
    if action in (Action.KILL, Action.STOP):
        yield from fault_cells_of([action])
        return
    groups: dict[tuple[str, str], list[Scene]] = {}
    for scene in SCENES:
        # A worker that cannot even say that it is here gives up, and meets nothing more.
        alone = scene.point if scene.point == "worker.registered" else ""
        groups.setdefault((scene.role, scene.intent + alone), []).append(scene)
    for first, *others in groups.values():
        yield replace(first, others=tuple(others)), action, None


def of_slack() -> set[str]:
    """Failpoints that need a connection to Slack: the tests of Slack play them."""
    return {name for name in NAMES if name.startswith("slack.")}


def unplayed() -> set[str]:
    """Failpoints that no scene meets."""
    return set(NAMES) - {scene.point for scene in SCENES} - of_slack()
