"""The figures in the documentation: every table between two markers is written from the document.

A page says `<!-- figures: NAME -->` where a table begins and `<!-- /figures -->` where it ends.
The text between the markers is replaced; the rest of the page stays. No figure is typed manually.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.compare import report as comparison
from bench.harness import Result, shown
from bench.publish import arithmetic, goals, summary
from bench.publish.figures import SECTIONS, Figures
from bench.race import report
from bench.race.chart import chart

PAGES = ("explanation/performance.md", "explanation/scale.md", "explanation/comparison.md")
DOCS = ROOT / "docs"
REGION = re.compile(r"(<!-- figures: ([a-z-]+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
#: The figures of the race that the pages have a picture of.
PICTURED = {"end-to-end": "End to end", "pick-up p50": "Pick-up", "workflows": "Workflows"}
NOT_YET = "Not measured yet: `./dev bench publish` fills this in."


def written(text: str, figures: Figures) -> str:
    """A page with its tables written from the figures."""

    def region(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        lines = list(TABLES[name](figures)) or [NOT_YET]
        return begin + "\n" + "\n".join(lines).strip() + "\n\n" + end

    return REGION.sub(region, text)


def write(figures: Figures, docs: Path = DOCS) -> list[Path]:
    """Rewrite all pages and charts; returns the files that have changed."""
    wanted = {docs / page: written((docs / page).read_text("utf-8"), figures) for page in PAGES}
    wanted |= {docs / "images" / name: text for name, text in charts(figures).items()}
    changed = [
        file
        for file, text in wanted.items()
        if not file.exists() or file.read_text("utf-8") != text
    ]
    for file in changed:
        file.write_text(wanted[file], encoding="utf-8")
    return changed


def charts(figures: Figures) -> dict[str, str]:
    """The pictures of the race, by file name."""
    document = figures.section("race")
    if document is None:
        return {}
    race = report.read(document)
    measured = [name for name in PICTURED if race.figures.get(name)]
    return {_picture(name): chart(race, name) for name in measured}


def _picture(name: str) -> str:
    return f"race-{name.replace(' ', '-')}.svg"


def took(figures: Figures) -> Iterator[str]:
    """The duration of the last run by section."""
    sections = {name: figures.section(name) for name in SECTIONS}
    minutes = [
        f"{name} {section['took_s'] / 60:.0f}"
        for name, section in sections.items()
        if section is not None and "took_s" in section
    ]
    if minutes:
        yield f"These measurements took, in minutes: {', '.join(minutes)}."


# ---- the race --------------------------------------------------------------------------------


def _machine(document: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in document["machine"].items())


def race_machine(figures: Figures) -> Iterator[str]:
    document = figures.section("race")
    if document is not None:
        yield f"- Machine: {_machine(document)}."
        versions = ", ".join(f"{name} {value}" for name, value in document["versions"].items())
        yield f"- Versions: {versions}."
        sizes = ", ".join(
            f"{count:,} {name.replace('_', '-')}" for name, count in document["size"].items()
        )
        yield f"- Size: {sizes}, {document['repetitions']} repetitions."


def race_tables(figures: Figures) -> Iterator[str]:
    document = figures.section("race")
    if document is not None:
        yield from report.markdown(report.read(document))


def race_charts(figures: Figures) -> Iterator[str]:
    drawn = charts(figures)
    for name, title in PICTURED.items():
        if _picture(name) in drawn:
            yield f"![{title}](../images/{_picture(name)})"


def race_settings(figures: Figures) -> Iterator[str]:
    document = figures.section("race")
    if document is None:
        return
    yield "| | version | settings | source of the settings | jobs in bulk |"
    yield "|---|---|---|---|---|"
    for each in document["entrants"]:
        cells = (each["name"], each["packages"], each["settings"], each["source"])
        yield f"| {' | '.join(cell or '–' for cell in cells)} | {each['jobs']:,} |"
    yield ""
    missing = document["missing"]
    yield from (f"Not measured: {who}: {why}." for who, why in missing.items())
    if not missing:
        yield "All tools were measured."


# ---- the comparison --------------------------------------------------------------------------


def compare_machine(figures: Figures) -> Iterator[str]:
    document = figures.section("compare")
    if document is not None:
        versions = ", ".join(f"{name} {value}" for name, value in document["versions"].items())
        lease_s, limit_s = document["lease_s"], document["takeover_s"]
        yield f"- Machine: {_machine(document)}."
        yield f"- Versions: {versions}."
        yield f"- Times: lease {lease_s} s, limit of a takeover {limit_s:.0f} s."
        yield f"- Runs of each trial: {comparison.repetitions(document)}."


def compare(table: str) -> Callable[[Figures], Iterator[str]]:
    """One of the tables of the comparison."""

    def lines(figures: Figures) -> Iterator[str]:
        document = figures.section("compare")
        if document is not None:
            yield from comparison.markdown(document, table)

    return lines


def compare_settings(figures: Figures) -> Iterator[str]:
    document = figures.section("compare")
    if document is not None:
        yield from comparison.settings(document)


# ---- the workloads ---------------------------------------------------------------------------


def workloads_machine(figures: Figures) -> Iterator[str]:
    document = figures.section("workloads")
    if document is not None:
        scale = document["scale"]
        yield f"- Machine: {_machine(document)}."
        share = "full size" if scale == 1 else f"{scale} of the full size"
        yield f"- {document['repetitions']} repetitions at {share}."
        failed = document.get("failed", {})
        yield from (f"- `{name}` failed and is missing: {why}." for name, why in failed.items())


def workloads(*beginnings: str) -> Callable[[Figures], Iterator[str]]:
    """A table of the benchmarks whose names have one of these prefixes."""

    def table(figures: Figures) -> Iterator[str]:
        document = figures.section("workloads") or {"benchmarks": ()}
        entries = [each for each in document["benchmarks"] if each["name"].startswith(beginnings)]
        if entries:
            yield "| `./dev bench …` | measures | median (min – max) | goal |"
            yield "|---|---|---|---|"
        for entry in entries:
            lines = "<br>".join(_contestants(entry))
            question = entry["question"] + _again(entry)
            yield f"| `{entry['name']}` | {question} | {lines} | {_aims(entry)} |"

    return table


def _again(entry: Mapping[str, Any]) -> str:
    """What is different about a workload that was measured later than the others."""
    return (
        f"<br>Measured later than the others, at load {entry['load']}." if "load" in entry else ""
    )


def _contestants(entry: Mapping[str, Any]) -> Iterator[str]:
    for each in entry["contestants"]:
        middle, least, most = (shown(each[name]) for name in ("median", "least", "most"))
        yield f"{each['name']}: {middle} {entry['unit']} ({least} – {most})"


def _aims(entry: Mapping[str, Any]) -> str:
    first = entry["contestants"][0]["name"]
    return "<br>".join(
        f"{aim['who'] or first}: {shown(aim['bound'])} {_unit(entry, aim)}: "
        + ("met" if aim["met"] else f"missed, {shown(aim['reached'])}")
        for aim in entry["aims"]
    )


def _unit(entry: Mapping[str, Any], aim: Mapping[str, Any]) -> str:
    return str(entry["unit"]) if aim["over"] is None else f"× {aim['over']}"


#: The parts of the CPU time of a job.
PARTS = {
    "all, without timers": "everything, measured again without the timers",
    "plan": "finding equal commands, and what the kernel has decided about such commands",
    "choose": "selecting the jobs of a claim, without its SQL",
    "sets": "making statements and the body of the commit",
    "SQL": "executing the statements in SQLite",
    "round trips": "building and sending statements, and reading their results",
    "commit": "CPU time of the commit",
    "rest": "creating ids and commands, batching, returning results",
    "commit, wall clock": "the commit, including the wait for the disk",
    "round trips, wall clock": "the round trips, including the wait for the server and its disk",
}


def budget(figures: Figures) -> Iterator[str]:
    found = {store: figures.result("workloads", f"budget-{store}") for store in goals.STORES}
    results = {store: result for store, result in found.items() if result is not None}
    if not results:
        return
    yield "| part | " + " | ".join(f"{store}, µs per job" for store in results) + " | meaning |"
    yield "|---" * (len(results) + 2) + "|"
    for name, meaning in PARTS.items():
        cells = [_part(result, name) for result in results.values()]
        yield f"| {name} | {' | '.join(cells)} | {meaning} |"


def _part(result: Result, name: str) -> str:
    if name not in result.figures:
        return "–"
    middle, least, most = map(shown, result.spread(name))
    return f"{middle} ({least} – {most})"


TABLES: Mapping[str, Callable[[Figures], Iterable[str]]] = {
    "summary": summary.table,
    "took": took,
    "race-machine": race_machine,
    "race-tables": race_tables,
    "race-charts": race_charts,
    "race-settings": race_settings,
    "compare-machine": compare_machine,
    "compare-settings": compare_settings,
    **{f"compare-{name}": compare(name) for name in comparison.TABLES},
    "goals": goals.table,
    "workloads-machine": workloads_machine,
    "limit": workloads("jobs-"),
    "enqueuing": workloads("submit-", "http.submit", "http.crowd"),
    "throughput": workloads(
        "end-to-end-", "defaults-", "workflows", "signals", "fan-out", "workers-"
    ),
    "latency": workloads("pick-up-", "recovery", "start-"),
    "growth": workloads("finished-", "queued-", "waiting-", "memory-", "size", "http.page"),
    "kernel-and-feed": workloads("kernel.", "feed.", "verify"),
    "budget": budget,
    "costs": arithmetic.costs,
    "a-thousand-jobs": arithmetic.a_thousand_jobs,
    "shards": arithmetic.shards,
    "commits": arithmetic.commits,
    "machines-setup": arithmetic.machines_setup,
    "machines-throughput": arithmetic.machines_throughput,
    "machines-model": arithmetic.machines_model,
    "machines-connections": arithmetic.machines_connections,
    "machines-interrupted": arithmetic.machines_interrupted,
}
