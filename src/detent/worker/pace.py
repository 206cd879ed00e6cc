"""Pace: estimates how long the runs of each intent take, and with it how much is claimed ahead.

A worker claims more jobs than it has slots for only if their runs are short. What is claimed ahead
is bounded by time, so that a job with a higher priority does not wait behind it for long.
"""

from collections.abc import Iterable

#: Runs of an intent are short if a run is expected to take less than this.
SHORT_S = 0.01
#: How much work is claimed ahead, in time and in number.
AHEAD_S = 0.05
MAX_AHEAD = 1_000
#: The least that a job costs the worker: its claim and its report.
LEAST_COST_S = AHEAD_S / MAX_AHEAD
#: An intent is unknown until this many of its runs were timed.
FEWEST_RUNS = 8
#: Weights of a new time in the moving averages of the time and of its deviation.
WEIGHT, DEVIATION_WEIGHT = 0.125, 0.25
#: The weight of a new interval between two ends.
INTERVAL_WEIGHT = 0.02


class Estimate:
    """Moving averages of the time of one intent's runs, and of its deviation."""

    __slots__ = ("deviation_s", "mean_s", "runs")

    def __init__(self) -> None:
        self.runs = 0
        self.mean_s = self.deviation_s = 0.0

    def note(self, took_s: float) -> None:
        if self.runs == 0:
            self.mean_s, self.deviation_s = took_s, took_s / 2
        else:
            error_s = took_s - self.mean_s
            self.mean_s += error_s * WEIGHT
            self.deviation_s += (abs(error_s) - self.deviation_s) * DEVIATION_WEIGHT
        self.runs += 1

    def expected_s(self) -> float:
        """How long a run may take, by the last ones. One long run is enough to raise it."""
        if self.runs < FEWEST_RUNS:
            return float("inf")
        return self.mean_s + 2 * self.deviation_s


class Pace:
    """The estimates of one pool, in which `slots` runs are executed at the same time."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._estimates: dict[str, Estimate] = {}
        #: The moving average of the time between the ends of two runs while others waited, and when
        #: the last run ended if others waited.
        self._interval_s = 0.0
        self._ended_s: float | None = None

    def note(self, intent: str, took_s: float) -> None:
        """Note how long a run of the intent took."""
        estimate = self._estimates.get(intent)
        if estimate is None:
            estimate = self._estimates.setdefault(intent, Estimate())
        estimate.note(took_s)

    def note_end(self, now_s: float, others_wait: bool) -> None:
        """Note that a run has ended. The interval to the next one counts while others wait."""
        before_s, self._ended_s = self._ended_s, now_s if others_wait else None
        if before_s is not None:
            self._interval_s += (now_s - before_s - self._interval_s) * INTERVAL_WEIGHT

    def costs(self, intents: Iterable[str]) -> dict[str, float]:
        """By intent with short runs: how many seconds of the pool's time a run takes."""
        found = {}
        for intent in intents:
            estimate = self._estimates.get(intent)
            expected_s = float("inf") if estimate is None else estimate.expected_s()
            if expected_s < SHORT_S:
                found[intent] = max(expected_s / self.slots, self._interval_s, LEAST_COST_S)
        return found

    def tiny(self, intent: str) -> bool:
        """Whether runs take so little that executing them on several threads gains nothing."""
        estimate = self._estimates.get(intent)
        return estimate is not None and estimate.expected_s() <= SHORT_S / 10
