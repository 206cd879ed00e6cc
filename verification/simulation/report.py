"""What a run saw, what it must have seen at least, and how to see it again."""

from collections import Counter
from dataclasses import dataclass, field

#: For each thing that a run is about: in this many steps it must have happened at least once.
FLOORS = {
    "operations": 3,
    "refusals": 40,
    "reclaims": 100,
    "stale writes refused": 100,
    "cancels": 250,
    "deaths": 150,
    "steps succeeded": 600,
    "switches": 12_000,
    "critic rejects": 1_000,
    "replans": 60_000,
    "budgets spent": 60_000,
    "budgets raised": 60_000,
    "waits for a resource": 12_000,
    "dismissals": 12_000,
    "outcomes handled": 60_000,
    "turns with a fast clock": 6_000,
    "clock went back": 1_000,
    "clock went forward": 60_000,
    "pauses": 4_000,
    "pauses expired": 12_000,
    "starts under a rate": 12_000,
    "schedules fired": 2_000,
}


@dataclass(slots=True)
class Outcome:
    """Counts by name; `failure` says which promise was broken, or what was seen too seldom."""

    seed: int
    steps: int
    counts: Counter[str] = field(default_factory=Counter)
    failure: str | None = None
    mutant: str | None = None
    #: Of the whole log: equal digests are equal runs.
    digest: str = ""

    def shortfalls(self) -> list[str]:
        """A run in which too little went wrong proves nothing."""
        return [
            f"{name}: {self.counts[name]}, at least {self.steps // every}"
            for name, every in FLOORS.items()
            if self.counts[name] < self.steps // every
        ]

    @property
    def found(self) -> str | None:
        """Why the run failed; None if it passed."""
        if self.failure is not None:
            return self.failure
        short = self.shortfalls()
        return f"too little happened: {'; '.join(short)}" if short else None

    def lines(self) -> list[str]:
        counted = ", ".join(f"{name} {number}" for name, number in self.counts.items())
        lines = [f"seed {self.seed}: {counted}, log {self.digest[:12]}"]
        if self.found is not None:
            lines += [f"  {self.found}", f"  replay: {self.replay()}"]
        return lines

    def replay(self) -> str:
        """The one command that shows this run again."""
        mutant = f" --mutant {self.mutant}" if self.mutant else ""
        command = f"python -m verification.simulation --seed {self.seed} --steps {self.steps}"
        return command + mutant
