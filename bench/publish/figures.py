"""What was measured, read back from its document: by section, benchmark and contestant."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.harness import Benchmark, Result, Spread

FILE = ROOT / "bench" / "figures.json"
SECTIONS = ("race", "workloads", "machines", "compare")


class Figures:
    """A document of `bench publish`. What was not measured is not there."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @classmethod
    def read(cls, file: Path = FILE) -> "Figures":
        return cls(json.loads(file.read_text("utf-8")) if file.exists() else {})

    def section(self, name: str) -> Any:
        return self.document.get(name)

    def result(self, section: str, name: str) -> Result | None:
        """The figures of one benchmark, as they were when they were measured."""
        for entry in (self.section(section) or {}).get("benchmarks", ()):
            if entry["name"] == name:
                less = entry["less_is_better"]
                benchmark = Benchmark(
                    name, entry["question"], entry["unit"], _no_measurements, (), less
                )
                return Result(
                    benchmark, {each["name"]: each["figures"] for each in entry["contestants"]}
                )
        return None

    def spread(self, section: str, name: str, who: str) -> Spread | None:
        result = self.result(section, name)
        return None if result is None or who not in result.figures else result.spread(who)

    def ratio(self, section: str, name: str, who: str, over: str) -> Spread | None:
        """How many times better one is than another; nothing if either is missing."""
        result = self.result(section, name)
        if result is None or not {who, over} <= result.figures.keys():
            return None
        return result.ratio(who, over)


def _no_measurements(_scale: object) -> tuple[()]:
    return ()
