"""Fuzzes parsers with Atheris; the arguments are a folder, seconds, and names of parsers.

Atheris instruments modules while they are imported, which takes several seconds, and its loop never
returns. So the parsers are imported once, and each is fuzzed in a forked process, for `SECONDS` of
its processor time. A line of JSON for each parser goes to standard output. Its inputs, its log and
an input that it failed on are in `FOLDER/NAME`.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

#: It has no types, and is installed by `./dev fuzz` only.
atheris: Any = importlib.import_module("atheris")
#: The packages whose branches guide the fuzzer: detent, and what it parses with in Python.
INSTRUMENTED = ["detent", "tomllib", "yaml", "cronsim", "zipfile", "urllib.parse", "ipaddress"]
#: Limits for one input. The time is of the clock on the wall, so it allows for a busy machine.
LIMITS = ("-max_len=4096", "-timeout=120", "-rss_limit_mb=1024")
#: How often the processor time is read.
BATCH = 64


def fuzz(parser: Any, check: Any, folder: Path, seconds: float) -> None:
    """Fuzz until the processor time is used; never returns."""
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(each)}"\n' for each in parser.scraps if each), "ascii")
    begun_s, calls = time.process_time(), 0

    def one(data: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls % BATCH == 0 and time.process_time() - begun_s > seconds:
            print(f"calls: {calls}", flush=True)
            os._exit(0)
        check(parser, data)

    inputs, failed = folder / "inputs", f"{folder}/failed-"
    options = (*LIMITS, f"-dict={words}", f"-artifact_prefix={failed}", str(inputs))
    atheris.Setup(["fuzzing", *options], one)
    atheris.Fuzz()


def _escaped(scrap: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in scrap.encode())


def result(name: str, folder: Path, status: int, cpu_s: float) -> dict[str, Any]:
    """What one process has done: its calls, or the end of its log and the input that failed."""
    lines = (folder / "log").read_text("utf-8", "replace").splitlines()
    calls = [line for line in lines if line.startswith("calls: ")]
    found: dict[str, Any] = {"parser": name, "cpu_s": round(cpu_s, 1)}
    if status == 0 and calls:
        return {**found, "calls": int(calls[-1].partition(" ")[2])}
    failed = [path.read_bytes().hex() for path in folder.glob("failed-*")]
    return {**found, "failed": failed, "log": lines[-40:]}


def main(arguments: list[str]) -> None:
    root, seconds, names = Path(arguments[0]), float(arguments[1]), arguments[2:]
    with atheris.instrument_imports(include=INSTRUMENTED):
        from verification.fuzzing.parser import check
        from verification.fuzzing.parsers import PARSERS
    for name in names:
        child = os.fork()
        if child == 0:
            fuzz(PARSERS[name], check, root / name, seconds)
        _, status, usage = os.wait4(child, 0)
        ended = result(name, root / name, status, usage.ru_utime + usage.ru_stime)
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
