"""The first table of the page about performance: what a reader wants to know, for both stores."""

from collections.abc import Callable, Iterator

from bench.harness import shown
from bench.publish.figures import Figures
from bench.publish.goals import NOT_DURABLE, STORES
from bench.race.entrants import ENTRANTS, POSTGRES, SQLITE

OWN = dict(zip(STORES, (SQLITE, POSTGRES), strict=True))
MISSING = "not measured"

Cell = Callable[[Figures, str], str]


def _figure(section: str, name: str, who: str, unit: str) -> Cell:
    """A median; `{}` in the name of the benchmark or of the contestant is the store."""

    def cell(figures: Figures, store: str) -> str:
        own = who or OWN[store]
        found = figures.spread(section, name.format(store), own.format(store))
        return MISSING if found is None else f"{shown(found.median)} {unit}"

    return cell


def _fastest_peer(figures: Figures, store: str) -> str:
    """The fastest durable tool end to end, and how many times as fast detent is."""
    peers = [each.name for each in ENTRANTS if each.environment and each.name != NOT_DURABLE]
    ratios = [(figures.ratio("race", "end-to-end", OWN[store], peer), peer) for peer in peers]
    found = [(ratio.median, peer) for ratio, peer in ratios if ratio is not None]
    if not found:
        return MISSING
    ratio, peer = min(found)
    return f"{shown(ratio)} × {peer}"


ROWS: dict[str, Cell] = {
    "jobs per second, from the submission to the end, one worker": _figure(
        "race", "end-to-end", "", "jobs/s"
    ),
    "compared with the fastest other durable tool, on any store": _fastest_peer,
    "tasks on the board per second, one worker": _figure(
        "workloads", "end-to-end-{}", "board", "tasks/s"
    ),
    "workflows of five durable steps per second": _figure("race", "workflows", "", "workflows/s"),
    "one durable submission": _figure("workloads", "submit-{}", "detent", "µs"),
    "from a submission to the start of its handler, idle, median": _figure(
        "workloads", "pick-up-idle-{}", "p50", "ms"
    ),
    "the same, 99th percentile": _figure("workloads", "pick-up-idle-{}", "p99", "ms"),
    "bytes on disk for a finished job with its whole log": _figure(
        "workloads", "size", "{}", "bytes"
    ),
}


def table(figures: Figures) -> Iterator[str]:
    """A row for each question, a column for each store."""
    if figures.section("race") is None or figures.section("workloads") is None:
        return
    yield "| | SQLite | PostgreSQL |"
    yield "|---|---|---|"
    for question, cell in ROWS.items():
        yield f"| {question} | {' | '.join(cell(figures, store) for store in STORES)} |"
