"""A gateway in another process, as a command on another machine finds it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.ports import free_port

CONFIGURATION = """
[intents.runQA]
command = ["true"]
"""


class GatewayProcess(NamedTuple):
    """A running gateway: its URL and the owner's token."""

    url: str
    token: str


@contextmanager
def gateway_process(directory: Path, *arguments: str, **variables: str) -> Iterator[GatewayProcess]:
    """`detent serve` in a directory of its own, until the end of the context."""
    directory.mkdir(exist_ok=True)
    configuration = directory / "detent.toml"
    if not configuration.exists():
        configuration.write_text(CONFIGURATION)
    command = [sys.executable, "-m", "detent", "serve", "--local", "--json"]
    process = subprocess.Popen(
        [*command, "--port", str(free_port()), *arguments],
        cwd=directory,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = json.loads("".join(_object(iter(process.stdout.readline, ""))))["url"]
        token = (directory / ".detent" / "token").read_text().strip()
        yield GatewayProcess(url, token)
    finally:
        process.terminate()
        process.wait(90)
        if process.stdout is not None:
            process.stdout.close()


def _object(lines: Iterator[str]) -> Iterator[str]:
    """The lines of a JSON object that is printed with indentation."""
    for line in lines:
        yield line
        if line.startswith("}"):
            return
