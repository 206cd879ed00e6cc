"""Coverage-guided fuzzing of the parsers of outside input: `./dev fuzz [PARSER...] --seconds N`.

Every parser must read any input or raise one of its declared errors, within limits of time and
memory. Inputs that reach more of detent are kept in `tests/faults/corpus`, and `./dev test` reads
them again. A failed input is kept too: correct the parser, and the input becomes its test.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from verification.fuzzing import corpus
from verification.fuzzing.parsers import PARSERS

ROOT = Path(__file__).resolve().parents[1]
DRIVER = (sys.executable, "-m", "verification.fuzzing.atheris_driver")


def fuzzed(names: Sequence[str], seconds: float, folder: Path) -> Iterator[dict[str, Any]]:
    """The results of the parsers, each as soon as it is known."""
    for name in names:
        inputs = folder / name / "inputs"
        inputs.mkdir(parents=True)
        for number, data in enumerate(corpus.seeds(name, PARSERS[name])):
            (inputs / str(number)).write_bytes(data)
    command = [*DRIVER, str(folder), str(seconds), *names]
    log = folder / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        yield from map(json.loads, process.stdout or ())
    if process.returncode:
        last = log.read_text("utf-8", "replace").splitlines()[-20:]
        raise SystemExit("\n".join(["the fuzzing has ended with an error", *last]))


def keep_inputs(result: dict[str, Any], folder: Path) -> None:
    """Keep what the fuzzing of one parser has found."""
    name = result["parser"]
    if "failed" in result:
        failed = [bytes.fromhex(each) for each in result["failed"]]
        corpus.keep(name, [*corpus.kept(name), *failed])
        return
    found = [path.read_bytes() for path in (folder / name / "inputs").iterdir()]
    corpus.keep(name, corpus.minimised(PARSERS[name], [*corpus.kept(name), *found]))


def show(result: dict[str, Any]) -> None:
    if "failed" not in result:
        rate = f"{result['calls']:,} inputs in {result['cpu_s']} s of processor time"
        click.echo(f"{result['parser']}: passed, {rate}")
        return
    click.echo(f"{result['parser']}: FAILED")
    click.echo("\n".join(f"  {line}" for line in result["log"]))
    for each in result["failed"]:
        click.echo(f"  input: {bytes.fromhex(each)!r}")


@click.command()
@click.argument("parsers", nargs=-1, type=click.Choice(sorted(PARSERS)), metavar="[PARSER]...")
@click.option("--seconds", default=60.0, show_default=True, help="Processor time for each parser.")
@click.option("--keep/--no-keep", default=True, help="Whether new inputs are kept.")
def main(parsers: tuple[str, ...], seconds: float, keep: bool) -> None:
    """Fuzz all parsers, or some of them."""
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for result in fuzzed(parsers or tuple(PARSERS), seconds, folder):
            show(result)
            failed += "failed" in result
            if keep:
                keep_inputs(result, folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
