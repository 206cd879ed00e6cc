"""`python -m bench [name …]`: runs the benchmarks whose names begin so, all of them without any.

Commands of their own: `race`, detent beside what people would use instead; `beyond`, many machines
and one PostgreSQL; `publish`, all of it, written into the documentation.
"""

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path

import bench
from bench import harness
from bench.harness import Benchmark, Scale


def benchmarks() -> list[Benchmark]:
    """Those of every module of this package that has a table `BENCHMARKS`."""
    modules = [importlib.import_module(f"bench.{each.name}") for each in _modules()]
    return [each for module in modules for each in getattr(module, "BENCHMARKS", ())]


def _modules() -> list[pkgutil.ModuleInfo]:
    return [each for each in pkgutil.iter_modules(bench.__path__) if each.name != "__main__"]


def chosen(names: list[str]) -> list[Benchmark]:
    every = benchmarks()
    unknown = [name for name in names if not any(each.name.startswith(name) for each in every)]
    if unknown:
        known = ", ".join(each.name for each in every)
        sys.exit(f"bench: there is no benchmark {', '.join(unknown)}. Known: {known}")
    return [each for each in every if not names or any(map(each.name.startswith, names))]


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["race"]:
        # Imported here: the other benchmarks do without the entrants and their table.
        from bench.race import command

        return command.main(arguments[1:])
    if arguments[:1] == ["beyond"]:
        from bench.beyond import command as beyond

        return beyond.main(arguments[1:])
    if arguments[:1] == ["publish"]:
        from bench import publish

        return publish.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="the beginning of a name")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="a share of the work: 0.01 is quick"
    )
    options = parser.parse_args(arguments)
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


if __name__ == "__main__":
    sys.exit(main())
