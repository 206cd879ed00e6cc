"""`python -m bench.fairness`: the ratio of `bench.workloads.fairness` on both stores.

It fails if the ratio is above the goal.
"""

import sys

from bench import harness
from bench.workloads.fairness import BENCHMARKS

REPETITIONS = 3


def main() -> int:
    missed = False
    for benchmark in BENCHMARKS:
        result = harness.run(benchmark, REPETITIONS)
        print(*harness.table(result), sep="\n", flush=True)
        pairs = zip(result.figures["beside"], result.figures["alone"], strict=True)
        ratios = [beside / alone for beside, alone in pairs]
        print("times as long beside it:", ", ".join(f"{each:.3f}" for each in ratios), flush=True)
        missed = missed or bool(result.missed())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
