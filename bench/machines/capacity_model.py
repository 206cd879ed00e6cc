"""Predicts the throughput of several workers from the costs that were measured with one.

A worker has a number of slots. A slot waits for its job and for the network, which takes no CPU
time, and needs CPU time of the machine, for which all slots of all workers queue. This is a closed
queueing network, whose throughput follows by mean value analysis. Two figures of a run with one
worker are its input: the CPU time of all processes for one job, without what they need when they
are idle, and the throughput, from which the time without CPU is computed.
"""

from typing import Any, NamedTuple

#: The precision of the computed delay.
DELAY_S = 1e-6


class Costs(NamedTuple):
    """What a job needs: CPU time, and time in its slot without CPU."""

    cpu_s: float
    delay_s: float


def throughput(slots: int, costs: Costs, cores: float) -> float:
    """Jobs per second of `slots` slots on a machine with `cores` cores.

    A queue for several cores is approximated by one core that is faster, and a delay.
    """
    service_s = costs.cpu_s / cores
    delay_s = costs.delay_s + costs.cpu_s - service_s
    queued = rate = 0.0
    for count in range(1, slots + 1):
        response_s = service_s * (1 + queued)
        rate = count / (delay_s + response_s)
        queued = rate * response_s
    return rate


def costs_of(rate: float, cpu_s: float, slots: int, cores: float) -> Costs:
    """The costs of a job, from a run with these slots: its throughput and its CPU time."""
    least, most = 0.0, slots / rate
    while most - least > DELAY_S:
        middle = (least + most) / 2
        if throughput(slots, Costs(cpu_s, middle), cores) > rate:
            least = middle
        else:
            most = middle
    return Costs(cpu_s, least)


class Prediction(NamedTuple):
    """A run with several workers: what was predicted from one worker, and what was measured."""

    workers: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def predictions(rows: list[dict[str, Any]], slots: int, cores: int) -> list[Prediction]:
    """Predict the runs with more than one worker of jobs that sleep; `rows` are from `scenes`."""
    sleeping = [each for each in rows if each["work"] == "sleep" and "cpu_us_per_job" in each]
    if not sleeping:
        return []
    first, *others = sorted(sleeping, key=lambda row: int(row["workers"]))
    free = cores - first["idle_cores"]
    cpu_s = first["cpu_us_per_job"] / 1e6
    costs = costs_of(first["jobs_per_s"], cpu_s, slots * first["workers"], free)
    return [
        Prediction(
            row["workers"], throughput(slots * row["workers"], costs, free), row["jobs_per_s"]
        )
        for row in others
    ]
