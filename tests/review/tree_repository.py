"""A repository in memory that tests write trees into; real git makes the diffs between them."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from detent.worker.workspaces import DIFF_OPTIONS

FILE, PROGRAM, LINK = b"100644", b"100755", b"120000"
MEMORY = Path("/dev/shm")


class Entry(NamedTuple):
    """A file of a tree."""

    content: bytes
    mode: bytes = FILE


Files = Mapping[bytes, Entry]


class TreeRepository:
    """Stores trees, and returns what git says about two of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "--quiet", "--bare")

    def git(self, *arguments: str) -> bytes:
        plain = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.path)}
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments], env=plain, check=True, capture_output=True
        )
        return done.stdout

    def tree(self, files: Files) -> str:
        """Store a tree; the names are paths."""
        entries: dict[bytes, tuple[bytes, str]] = {}
        below: dict[bytes, dict[bytes, Entry]] = {}
        for path, entry in files.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = entry
            else:
                entries[name] = (entry.mode, self._store(b"blob", entry.content))
        for name, inside in below.items():
            entries[name] = (b"40000", self.tree(inside))
        order = sorted(entries, key=lambda name: name + b"/" * (name in below))
        rows = [b"%s %s\0" % (entries[name][0], name) + _raw(entries[name][1]) for name in order]
        return self._store(b"tree", b"".join(rows))

    def diff(self, old: str, new: str, *options: str) -> bytes:
        """The diff of two trees, made with the options that a worker uses."""
        return self.git("diff", *DIFF_OPTIONS, *options, old, new)

    def _store(self, kind: bytes, content: bytes) -> str:
        data = b"%s %d\0" % (kind, len(content)) + content
        name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        path = self.path / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(data))
        return name


def _raw(name: str) -> bytes:
    return bytes.fromhex(name)


@contextmanager
def tree_repository() -> Iterator[TreeRepository]:
    """A repository that is removed afterwards; in memory where the machine allows it."""
    memory = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
    path = tempfile.mkdtemp(prefix="detent-trees-", dir=memory)
    try:
        yield TreeRepository(Path(path))
    finally:
        shutil.rmtree(path)
