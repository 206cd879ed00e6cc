"""`./dev compare`: trials of detent and other tools, and who lost, repeated or overwrote work.

Each tool is installed at a pinned version into an environment of its own. The tools are tried side
by side, since a trial mostly waits for a time-out; the trials of one tool follow one another.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench import harness
from bench.compare import report
from bench.compare.scripts.trial_job import LEASE_S
from bench.compare.systems import SYSTEMS, System, version
from bench.compare.trials import TAKEOVER_S, TRIALS
from bench.peers.environments import Missing
from bench.peers.versions import versions
from bench.workloads import jobs_postgres

PARALLEL = 5


def run(
    repetitions: int,
    systems: Sequence[System] = SYSTEMS,
    trials: Sequence[str] = tuple(TRIALS),
    takeover_s: float = TAKEOVER_S,
    parallel: int = PARALLEL,
) -> dict[str, Any]:
    """The document of all trials."""
    again = [name for name in trials for _ in range(repetitions)]
    if any(each.store == "postgres" for each in systems):
        jobs_postgres.server()  # once, before threads ask for it
    with ThreadPoolExecutor(parallel) as pool:
        found = list(pool.map(partial(tried, trials=again, takeover_s=takeover_s), systems))
    return {
        "machine": harness.machine(),
        "versions": versions(),
        "lease_s": LEASE_S,
        "takeover_s": takeover_s,
        "systems": found,
    }


def tried(system: System, *, trials: Sequence[str], takeover_s: float) -> dict[str, Any]:
    """The trials of one tool; what cannot be tried has its reason."""
    outcomes: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    for name in trials:
        print(f"compare: {system.name}: {name}", file=sys.stderr, flush=True)
        try:
            outcome = TRIALS[name](system, takeover_s)
            outcomes.setdefault(name, []).append(outcome)
        except Missing as reason:
            failed[name] = str(reason)
    return {
        **{name: getattr(system, name) for name in ("name", "settings", "source", "key")},
        "version": version(system),
        "trials": outcomes,
        "failed": failed,
    }


def chosen(names: Sequence[str]) -> list[System]:
    """The tools whose names have one of these prefixes, and always detent."""
    prefixes = tuple(name.lower() for name in names)
    return [
        each
        for each in SYSTEMS
        if each.environment is None or not names or each.name.lower().startswith(prefixes)
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="compare", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="tool", help="the prefix of a tool's name")
    parser.add_argument("--trial", action="append", choices=TRIALS, help="only this trial")
    parser.add_argument(
        "--takeover", type=float, default=TAKEOVER_S, metavar="SECONDS", help="limit of a takeover"
    )
    parser.add_argument("--repetitions", type=int, default=1, metavar="N")
    parser.add_argument("--parallel", type=int, default=PARALLEL, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    options = parser.parse_args(arguments)
    document = run(
        options.repetitions,
        chosen(options.names),
        options.trial or tuple(TRIALS),
        options.takeover,
        options.parallel,
    )
    print(*report.lines(document), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if any(each["failed"] for each in document["systems"]) else 0
