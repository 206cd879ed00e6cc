"""Runs the commands of a documentation page as a reader would: files, terminals, one shell.

A fenced block marked `sh` is typed into the reader's shell; with a title that names a terminal it
runs there until it says that it is ready, or until a later block needs that terminal again. A block
with the title "output" has lines that the commands before it print, whatever the ids and times are.
A block whose title is a file name is that file. Anything else is for reading only.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NamedTuple, Self

from tests.e2e.installation import wait_until
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]*)"')
#: How long one block may take.
PATIENCE_S = 240.0
END = "== end of block"
#: What differs in the output of every reader, and the width of columns, which follows from it.
VARIES = {
    r"\b01[0-9a-z]{24}\b": "ID",
    r"\b\d{4}-\d\d-\d\dT[\d:.]+Z": "TIME",
    r" +": " ",
}


class Block(NamedTuple):
    """One fenced block: its language, its title, and its text."""

    language: str
    title: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    for found in FENCE.finditer(page):
        language, _, rest = found["info"].partition(" ")
        title = TITLE.search(rest)
        yield Block(language, title[1] if title else "", found["text"])


def comparable(output: str) -> list[str]:
    """The lines of an output without what varies."""
    for pattern, same in VARIES.items():
        output = re.sub(pattern, same, output)
    return [line.strip() for line in output.splitlines()]


def imported(block: Block, place: Path) -> ModuleType:
    """The module that a block is, written to a file of its name and imported from there."""
    file = place / block.title
    file.write_text(block.text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Reader:
    """A reader with an empty home directory, who follows a page with the programs of `bin_dir`."""

    def __init__(
        self,
        home: Path,
        replaced: Mapping[str, str] | None = None,
        bin_dir: Path = Path(sys.executable).parent,
        *,
        shell: Sequence[str] = ("bash", "-e"),
        terminals: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`terminals` has the shell of each machine, by the beginning of a terminal's title."""
        self.home = home
        self._machines = terminals or {}
        self.place = home / "here"
        self.place.mkdir(parents=True)
        self.port = free_port()
        self.replaced = {"5680": str(self.port), **(replaced or {})}
        self.environment = {
            "PATH": f"{bin_dir}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PYTEST_ADDOPTS": os.environ["PYTEST_ADDOPTS"],
            "DETENT_GATEWAY_PORT": str(self.port),
        }
        self.terminals: dict[str, subprocess.Popen[bytes]] = {}
        self.output: list[str] = []
        self.shell = self._shell(shell)

    def follow(self, page: Path) -> str:
        """Do everything that a page says; what the shell printed."""
        done = 0
        for block in blocks(page.read_text("utf-8")):
            text = block.text
            for old, new in self.replaced.items():
                text = text.replace(old, new)
            done += self.do(block, text)
        assert done, f"{page} has no commands"
        return "".join(self.output)

    def write_files(self, page: Path) -> None:
        """The files of a page alone, for what has to be there before it is followed."""
        for block in blocks(page.read_text("utf-8")):
            if block.title not in ("", "output") and block.language != "sh":
                self._write(block.title, block.text)

    def do(self, block: Block, text: str) -> bool:
        if block.language == "sh" and "terminal" in block.title:
            self.start(block.title, text)
        elif block.language == "sh":
            self.enter(text)
        elif block.title == "output":
            printed = comparable("".join(self.output))
            missing = [line for line in comparable(text) if line not in printed]
            assert not missing, f"not printed: {missing}\n{''.join(self.output)}"
            return False
        elif block.title:
            self._write(block.title, text)
            return False
        else:
            return False
        return True

    def _write(self, name: str, text: str) -> None:
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    # -- the reader's shell ----------------------------------------------------------------

    def _shell(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def enter(self, text: str) -> str:
        """What commands print. One that fails ends the shell, and so the test."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        # A group, so that no command of the block can read what comes after it.
        self.shell.stdin.write(f"{{\n{text}\n}} </dev/null\nprintf '\\n{END}\\n'\n")
        self.shell.stdin.flush()
        output: list[str] = []
        patience = threading.Timer(PATIENCE_S, self.shell.kill)
        patience.start()
        for line in self.shell.stdout:
            if line.rstrip() == END:
                patience.cancel()
                self.output.extend(output)
                return "".join(output)
            output.append(line)
        patience.cancel()
        raise AssertionError(f"failed:\n{text}\n{''.join(output)}\n{self._logs()}")

    # -- terminals -------------------------------------------------------------------------

    def start(self, title: str, text: str) -> None:
        """Something that stays, in a terminal of its own."""
        if title in self.terminals:
            self.terminals[title].wait(PATIENCE_S)
        file = self.home / f"{title}.log"
        named = (each for name, each in self._machines.items() if title.startswith(name))
        with file.open("wb") as log:
            process = self.terminals[title] = subprocess.Popen(
                [*next(named, ("bash", "-c")), text],
                cwd=self.place,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def is_ready() -> bool:
            ended = process.poll() is not None
            ready = "Ready" in file.read_text()
            assert ready or not ended, f"{text} has ended:\n{file.read_text()}"
            return ready

        wait_until(is_ready, f"{text} is ready")

    def _logs(self) -> str:
        logs = (f"{file.name}:\n{file.read_text()}" for file in self.home.glob("*.log"))
        return "\n".join(logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.terminals.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.terminals.values():
            process.wait(PATIENCE_S)
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.close()
        self.shell.stdout.close()
        self.shell.wait(PATIENCE_S)
