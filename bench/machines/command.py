"""`python -m bench machines`: gateways and workers on machines of their own against one PostgreSQL.

Machines are network namespaces, so it needs root; they are made at the beginning and removed at the
end. PgBouncer is Debian's package `pgbouncer`; without it that part is named and left out.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import ROOT, harness
from bench.harness import Scale
from bench.machines.capacity_model import Prediction, predictions
from bench.machines.scenes import Size
from detent.settings import Settings
from verification.network import DATABASE, Unable, network

GATEWAYS, WORKERS = 2, 4
WITHIN_S = 900


def run(scale: Scale) -> dict[str, Any]:
    """Everything that was found, or why nothing was."""
    gateways = [f"gateway{number}" for number in range(1, GATEWAYS + 1)]
    workers = [f"worker{number}" for number in range(1, WORKERS + 1)]
    # At a small scale fewer machines: each process takes a second to start.
    if scale.share < 0.1:
        gateways, workers = gateways[:1], workers[:2]
    whole = Size()
    size = Size(
        scale.of(whole.nothing, least=40),
        scale.of(whole.sleep, least=40),
        scale.of(whole.submissions, least=40),
        whole.rate,
    )
    with network([*gateways, *workers, "keeper", "client"]) as machines:
        order = {"machines": list(machines.values()), "size": size._asdict()}
        command = [sys.executable, "-m", "bench.machines.inside", json.dumps(order)]
        found = _answer(machines[DATABASE].command(command))
    return {"machine": harness.machine(), "size": size._asdict(), **found}


def _answer(command: list[str]) -> dict[str, Any]:
    """What the process says at the end. If it takes too long it is interrupted, and cleans up."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            output, _ = process.communicate(timeout=WITHIN_S)
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise
    if process.returncode:
        raise RuntimeError(f"the measurement ended with {process.returncode}; see above")
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    return answer


def lines_of(found: dict[str, Any]) -> Iterator[str]:
    """What was found, for a terminal."""
    for way in ("direct", "pooler"):
        if way not in found:
            yield f"{way}: {found['missing'][way]}"
            continue
        for row in found[way]["throughput"]:
            seen = ", ".join(f"{row[each]} {each}" for each in row if each.endswith("connections"))
            rate = f"{row['jobs_per_s']:,.0f} jobs/s, {row['cpu_us_per_job']:,.0f} µs CPU per job"
            yield f"{way}: {row['workers']} workers, {row['work']}: {rate}; {seen}"
        for each in predicted(found, way):
            yield (
                f"{way}: {each.workers} workers, sleep: predicted {each.predicted:,.0f} jobs/s "
                f"from one worker, an error of {each.error:+.0%}"
            )
        yield f"{way}, restart: {_outcome(found[way]['restart'])}"
    yield f"failover: {_outcome(found['failover'])}"


def predicted(found: dict[str, Any], way: str) -> list[Prediction]:
    """The model's predictions for the runs of one kind of connection."""
    if way not in found:
        return []
    slots, cores = Settings().worker_concurrency, found["machine"]["cores"]
    return predictions(found[way]["throughput"], slots, cores)


def _outcome(scene: dict[str, Any]) -> str:
    return (
        f"{scene['acknowledged']} acknowledged, {scene['lost']} lost, "
        f"{scene['made_twice']} made twice, {scene['differences']} differences; "
        f"longest gap {scene['longest_gap_s']:.1f} s"
    )


def faults(found: dict[str, Any]) -> list[str]:
    """What must not be."""
    scenes = [(way, found[way]["restart"]) for way in ("direct", "pooler") if way in found]
    return [
        f"{name}: {scene[each]} {each}"
        for name, scene in (*scenes, ("failover", found["failover"]))
        for each in ("lost", "made_twice", "differences")
        if scene[each]
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench machines", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, metavar="X")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found there too")
    options = parser.parse_args(arguments)
    try:
        found = run(Scale(options.scale))
    except Unable as reason:
        print(f"bench machines: {reason}", file=sys.stderr)
        return 2
    print(*lines_of(found), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    wrong = faults(found)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0
