"""`python -m bench [name …]`: runs the workloads whose names have these prefixes, or all of them.

The first argument can be a command instead; `COMMANDS` lists them.
"""

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path

from bench import harness, workloads
from bench.harness import Benchmark, Scale

#: A command, and the module whose `main` runs it.
COMMANDS = {
    "race": "bench.race.command",
    "compare": "bench.compare.command",
    "machines": "bench.machines.command",
    "upgrade": "bench.upgrade.command",
    "publish": "bench.publish.command",
    "review-page": "bench.review_page",
    "twenty-agents": "bench.twenty_agents",
}


def benchmarks() -> list[Benchmark]:
    """Those of every module of `bench.workloads` that has a table `BENCHMARKS`."""
    names = [each.name for each in pkgutil.iter_modules(workloads.__path__)]
    modules = [importlib.import_module(f"bench.workloads.{name}") for name in names]
    return [each for module in modules for each in getattr(module, "BENCHMARKS", ())]


def chosen(names: list[str]) -> list[Benchmark]:
    every = benchmarks()
    unknown = [name for name in names if not any(each.name.startswith(name) for each in every)]
    if unknown:
        known = ", ".join([*COMMANDS, *(each.name for each in every)])
        sys.exit(f"bench: there is no benchmark {', '.join(unknown)}. Known: {known}")
    return [each for each in every if not names or any(map(each.name.startswith, names))]


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        module = importlib.import_module(COMMANDS[arguments[0]])
        return int(module.main(arguments[1:]))
    options = _options(arguments)
    picked = chosen(options.names)
    if options.list:
        print("\n".join(f"{each.name:20} {each.question}" for each in picked))
        return 0
    print(", ".join(f"{name} {value}" for name, value in harness.machine().items()))
    results = []
    for each in picked:
        results.append(harness.run(each, options.repetitions, Scale(options.scale)))
        print("", *harness.table(results[-1]), sep="\n", flush=True)
    if options.json is not None:
        text = json.dumps(harness.document(results), indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if any(result.missed() for result in results) else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="the prefix of a name")
    parser.add_argument("--list", action="store_true", help="only list the workloads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="a share of the work: 0.01 is quick"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
