"""Start-up as people feel it: `detent --help`, and `detent up` until its gateway is ready."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.harness import Aim, Benchmark, Contestant, Scale
from bench.workloads.installations import STORES
from bench.workloads.jobs import directory
from bench.workloads.jobs_postgres import database

HELPS = 5
WITHIN_S = 60.0
LOOK_S = 0.005


def command(*words: str) -> list[str]:
    """The installed program, as a shell would start it."""
    return [str(Path(sys.executable).with_name("detent")), *words]


def helping(times: int) -> float:
    """Milliseconds of `detent --help`."""
    return _quickest(times, command("--help"), with_bytecode())


def listing(times: int) -> float:
    """Milliseconds of `detent tasks` without a server, on a database that exists."""
    with directory() as place:
        variables = with_bytecode(
            DETENT_STORE_DATA_DIR=str(place), DETENT_STORE_URL=str(place / "detent.db")
        )
        return _quickest(times, command("tasks"), variables)


def with_bytecode(**more: str) -> dict[str, str]:
    """The environment without a ban on bytecode, which an installed program has."""
    return {
        name: value
        for name, value in {**os.environ, **more}.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }


def _quickest(times: int, words: list[str], variables: dict[str, str]) -> float:
    """Milliseconds of a command, the quickest of a few: the others met something else.

    The first one is not counted: it writes bytecode and the database.
    """
    took = []
    for _ in range(times + 1):
        begun = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=variables)
        took.append(time.perf_counter() - begun)
    return min(took[1:]) * 1e3


def up(store: str, fresh: bool) -> float:
    """Milliseconds from the start of `detent up` until its gateway answers that it is alive."""
    with directory() as place:
        url = database() if store == "postgres" else str(place / "detent.db")
        took_s = _until_ready(place, url)
        return (took_s if fresh else _until_ready(place, url)) * 1e3


def _until_ready(place: Path, url: str) -> float:
    begun = time.perf_counter()
    with running(place, url):
        return time.perf_counter() - begun


@contextmanager
def running(place: Path, url: str, *options: str) -> Iterator[str]:
    """The address of a `detent up` that is ready; it is stopped at the end."""
    variables = with_bytecode(
        DETENT_STORE_DATA_DIR=str(place), DETENT_STORE_URL=url, DETENT_GATEWAY_PORT="0"
    )
    with subprocess.Popen(
        command("up", *options),
        cwd=place,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield _address(place / "server.json", process, time.perf_counter() + WITHIN_S)
        finally:
            process.terminate()
            process.wait(WITHIN_S)


def _address(announced: Path, process: "subprocess.Popen[bytes]", until_s: float) -> str:
    while time.perf_counter() < until_s:
        if process.poll() is not None:
            raise RuntimeError(f"detent up ended with {process.returncode}")
        try:
            server = json.loads(announced.read_text("utf-8"))
            # The file of a run before this one is there until this one announces itself.
            if server["pid"] == process.pid:
                urllib.request.urlopen(f"{server['url']}/ready", timeout=5).close()
                return str(server["url"])
        except (OSError, ValueError, urllib.error.URLError):
            pass
        time.sleep(LOOK_S)
    raise TimeoutError(f"detent up was not ready within {WITHIN_S:.0f} s")


def _helps(scale: Scale) -> tuple[Contestant, ...]:
    return (Contestant("detent --help", partial(helping, scale.of(HELPS))),)


def _listings(scale: Scale) -> tuple[Contestant, ...]:
    return (Contestant("detent tasks", partial(listing, scale.of(HELPS))),)


def _ups(_scale: Scale) -> tuple[Contestant, ...]:
    return tuple(
        Contestant(f"{store}, {when}", partial(up, store, fresh))
        for store in STORES
        for when, fresh in (("first start", True), ("again", False))
    )


BENCHMARKS = (
    Benchmark(
        "start-help",
        "Duration of `detent --help`.",
        "ms",
        _helps,
        (Aim(80),),
        less_is_better=True,
        rivals=False,
    ),
    Benchmark(
        "start-command",
        "Duration of `detent tasks` without a server.",
        "ms",
        _listings,
        (Aim(300),),
        less_is_better=True,
        rivals=False,
    ),
    Benchmark(
        "start-up",
        "From `detent up` until its gateway responds.",
        "ms",
        _ups,
        tuple(Aim(1_500, who=f"{store}, first start") for store in STORES),
        less_is_better=True,
        rivals=False,
    ),
)
