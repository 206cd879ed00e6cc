"""What a run saw, what it must have seen at least, and how to see it again."""

from collections import Counter
from dataclasses import dataclass, field

#: For each kind of event that must happen: at least once in this many steps.
FLOORS = {
    "operations": 3,
    "refusals": 25,
    "reclaims": 60,
    "stale writes refused": 60,
    "cancels": 250,
    "deaths": 150,
    "steps succeeded": 700,
    "switches": 4_000,
    "critic rejects": 1_000,
    "replans": 8_000,
    "budgets spent": 2_000,
    "budgets raised": 2_000,
    "waits for a resource": 3_000,
    "provider limits": 4_000,
    "breakers opened": 4_000,
    "breakers closed": 6_000,
    "trials": 6_000,
    "dismissals": 2_000,
    "outcomes handled": 10_000,
    "turns with a fast clock": 2_000,
    "clock went back": 1_000,
    "clock went forward": 4_000,
    "pauses": 2_000,
    "pauses expired": 4_000,
    "starts under a rate": 4_000,
    "schedules fired": 4_000,
    "claimed ahead": 300,
    "handed back unstarted": 1_000,
}
#: A kind of which fewer than this many are required is not counted: how many there are is then
#: mostly chance. A rare kind is counted over the sum of many runs.
MIN_REQUIRED = 10


def required(steps: int) -> dict[str, int]:
    """The number of events of each kind that as many steps must have, in one run or in several."""
    numbers = {name: steps // every for name, every in FLOORS.items()}
    return {name: number for name, number in numbers.items() if number >= MIN_REQUIRED}


@dataclass(slots=True)
class Outcome:
    """Counts by name; `failure` says which promise was broken, or what was seen too seldom."""

    seed: int
    steps: int
    counts: Counter[str] = field(default_factory=Counter)
    failure: str | None = None
    mutant: str | None = None
    #: Whether a client chose between variants.
    variants: bool = False
    #: Of the whole log: equal digests are equal runs.
    digest: str = ""

    def shortfalls(self) -> list[str]:
        """A run in which too little went wrong proves nothing."""
        return [
            f"{name}: {self.counts[name]}, at least {number}"
            for name, number in required(self.steps).items()
            if self.counts[name] < number
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
        mutant = " --variants" if self.variants and not mutant else mutant
        command = f"python -m verification.simulation --seed {self.seed} --steps {self.steps}"
        return command + mutant
