"""The machines of the tutorial: network namespaces, of which one has the database.

`python -m tests.docs.machines DIRECTORY ADDRESS` is the machine of the database: it prints the URL
of an empty database and runs until its input ends.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.machines.inside import let_in
from tests.docs.pages import ROOT, Reader
from verification.memory_directory import directory_in_memory
from verification.network import DATABASE, Machine, network
from verification.postgres_server import Server

PAGE = ROOT / "docs" / "tutorial" / "many-machines.md"
NAMES = ("machine-1", "machine-2", "machine-3")
#: What takes its time on the page is held up here until the kill, however slow the machine is.
HELD = """import time
from pathlib import Path


def held(seconds: float) -> None:
    time.sleep(seconds)
    while not Path("go").exists():
        time.sleep(0.05)

"""
#: The command that a shell of a machine is, to which its text is appended.
Shell = Callable[[Machine], Sequence[str]]


def plain_shell(machine: Machine) -> Sequence[str]:
    return machine.command(["bash", "-c"])


def follow(home: Path, bin_dir: Path, shells: Mapping[str, Shell] | None = None) -> str:
    """Follow the page on three machines; `shells` are those of machines that are containers."""
    with network(NAMES) as machines, database(machines[DATABASE]) as url:
        replaced = {
            "postgresql://localhost/detent": url,
            "import time\n": HELD,
            "time.sleep, 0.3": "held, 0.05",
            "kill -9 $(cat machine-2.pid)": "kill -9 $(cat machine-2.pid) && touch go",
        }
        terminals = {
            name.replace("-", " "): (shells or {}).get(name, plain_shell)(machines[name])
            for name in NAMES
        }
        shell = machines[NAMES[0]].command(["bash", "-e"])
        with Reader(home, replaced, bin_dir, shell=shell, terminals=terminals) as reader:
            return reader.follow(PAGE)


@contextmanager
def database(machine: Machine) -> Iterator[str]:
    """The URL of an empty database on its machine."""
    with directory_in_memory("detent-pg-") as directory:
        command = [sys.executable, "-m", __name__, str(directory), machine.address]
        with subprocess.Popen(
            machine.command(command),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
            process.communicate()


def main(directory: str, address: str) -> None:
    settings = {"listen_addresses": f"127.0.0.1,{address}"}
    with Server.start(Path(directory) / "pg", settings=settings) as server:
        let_in(server)
        server.create_database("detent")
        sys.stdout.write(f"postgresql://postgres@{address}:{server.port}/detent\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
