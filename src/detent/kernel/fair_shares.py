"""Weighted fair queuing between projects: from which project a claim takes its next job.

Each job that is claimed moves its project forward in virtual time by `UNIT / weight`. The next job
is taken from the project that is furthest behind; within a project the order is that of rank. A
project without queued work is moved forward to the present virtual time when it has work again: it
saves nothing up. This is start-time fair queuing with jobs as units.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, Protocol, TypeVar

#: The virtual time that one job of a project with the weight 1 takes.
UNIT = 1_000_000
MAX_WEIGHT = 1_000


class OfProject(Protocol):
    @property
    def project(self) -> str: ...


J = TypeVar("J", bound=OfProject)


class Shares(NamedTuple):
    """The virtual time of projects, as known to one process that claims."""

    #: When the job that was claimed last has started, in virtual time.
    now: int = 0
    #: By project: when its next job can start, if that is later than `now`.
    starts: Mapping[str, int] = {}
    #: By project: its weight, if that is not 1.
    weights: Mapping[str, int] = {}

    def start(self, project: str) -> int:
        """The virtual time at which the next job of a project starts."""
        return self.starts.get(project, self.now)

    def cost(self, project: str) -> int:
        """The virtual time that a job of a project takes."""
        return UNIT // self.weights.get(project, 1)

    def first(self, jobs: Sequence[J], limit: int) -> list[J]:
        """The first `limit` jobs by virtual time. `jobs` are in the order of rank and project.

        Of projects with the same virtual time, the one whose first job is first there comes first.
        """
        starts: dict[str, int] = {}
        for each in jobs:
            starts.setdefault(each.project, len(starts))
        if len(starts) <= 1:
            return list(jobs[:limit])
        costs = [self.cost(project) for project in starts]
        at = [self.start(project) for project in starts]
        tagged = []
        for place, each in enumerate(jobs):
            number = starts[each.project]
            tagged.append((at[number], number, place))
            at[number] += costs[number]
        tagged.sort()
        return [jobs[place] for _, _, place in tagged[:limit]]

    def divided(
        self, projects: Sequence[str], limit: int, jobs: Mapping[str, int]
    ) -> dict[str, int]:
        """How many of the first `limit` jobs each project has, if it has any number of jobs.

        The projects are in the order of their first jobs. `jobs` is how many a project has, where
        that is known.
        """
        queue = [(self.start(project), place, project) for place, project in enumerate(projects)]
        queue = [each for each in queue if jobs.get(each[2], 1)]
        heapify(queue)
        taken: dict[str, int] = {}
        while queue and limit > 0:
            at, place, project = queue[0]
            taken[project] = count = taken.get(project, 0) + 1
            limit -= 1
            if count == jobs.get(project):
                heappop(queue)
            else:
                heapreplace(queue, (at + self.cost(project), place, project))
        return taken

    def after(self, projects: Iterable[str]) -> "Shares":
        """The shares after jobs of these projects were claimed."""
        starts, now = dict(self.starts), self.now
        for project, count in Counter(projects).items():
            start, cost = self.start(project), self.cost(project)
            starts[project] = start + count * cost
            now = max(now, starts[project] - cost)
        return self._replace(
            now=now, starts={name: start for name, start in starts.items() if start > now}
        )


EQUAL = Shares()
