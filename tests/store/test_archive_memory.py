"""Hostile archives are refused within a bounded amount of memory, measured in a process."""

import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from detent.transfer.archive import EVENTS, MANIFEST, MAX_HISTORY_BYTES, MAX_LINE_BYTES

MIB = 1024 * 1024
#: More than any archive may take, with the interpreter and the modules in it.
MAX_MIB = 1_024

#: Prints why the archive was refused, and the most memory that the process has had, in MiB.
OPEN = """
import sys
from pathlib import Path
from detent.errors import Refused
from detent.transfer.archive import opened
try:
    opened(Path(sys.argv[1]))
except Refused as error:
    print(str(error)[:300].replace(chr(10), " "))
    status = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) // 1024 for line in status if "VmHWM" in line))
"""


def manifest(held: dict[str, bytes], **more: Any) -> bytes:
    sizes = {
        name: {"sha256": sha256(data).hexdigest(), "size": len(data)} for name, data in held.items()
    }
    chain = {"position": 0, "value": ""}
    known = {"format": "detent task", "version": 1, "detent": "0", "task": "t", "streams": {}}
    rest = {"events_chain": "", "chain": chain, "output": {}, "missing": [], "members": sizes}
    return json.dumps({**known, **rest, **more}).encode()


def zeros(
    file: Path, name: str, mib: int, announced_mib: int, compression: int = zipfile.ZIP_DEFLATED
) -> None:
    """A member of a given size in MiB of zeros, of which the manifest announces a part."""
    with zipfile.ZipFile(file, "w", compression) as archive:
        with archive.open(name, "w") as member:
            for _ in range(mib):
                member.write(bytes(MIB))
        announced = {name: {"sha256": "0" * 64, "size": announced_mib * MIB}}
        archive.writestr(MANIFEST, manifest({}, members=announced))


def packed(file: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, MANIFEST: manifest(members)}.items():
            archive.writestr(name, data)


def event(data: str) -> bytes:
    known = {"position": 1, "stream": "t", "version": 1, "project": "p", "name": "task_submitted"}
    rest = {"schema": 1, "subject": None, "at": 1, "actor": "a", "data": data}
    return json.dumps({**known, **rest}).encode() + b"\n"


def highly_compressed(file: Path) -> None:
    zeros(file, EVENTS, 900, announced_mib=900)


def highly_compressed_in_another_way(file: Path) -> None:
    """bzip2 packs so much into a few bytes that the first read would unpack all of it."""
    zeros(file, EVENTS, 600, announced_mib=1, compression=zipfile.ZIP_BZIP2)


def a_larger_member_than_announced(file: Path) -> None:
    zeros(file, EVENTS, 700, announced_mib=1)


def a_million_members(file: Path) -> None:
    """A list of members alone, which the standard library would read as a whole."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *(0,) * 6, *(0,) * 3, 1, *(0,) * 4, 0, 0)
    one = entry + b"a"
    count = 1_500_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65_535, 65_535, len(one) * count, 0, 0)
    with file.open("wb") as out:
        for _ in range(count // 10_000):
            out.write(one * 10_000)
        out.write(end)


def many_members_by_zip64(file: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(70_000):
            archive.writestr(f"{number}", b"")
    file.write_bytes(made.getvalue())


def a_long_line(file: Path) -> None:
    packed(file, {EVENTS: b"[" + b"{}," * ((MAX_LINE_BYTES + MIB) // 3)})


def lines_of_many_small_objects(file: Path) -> None:
    packed(file, {EVENTS: (b"[" + b"{}," * 1_000_000 + b"{}]\n") * 8})


def payloads_of_many_small_objects(file: Path) -> None:
    most = MAX_LINE_BYTES - MIB
    packed(file, {EVENTS: event('{"payload":[' + "{}," * (most // 3) + "{}]}") * 2})


def deep_json(file: Path) -> None:
    packed(file, {EVENTS: event("[" * 1_000_000) + b"[" * 1_000_000})


def a_huge_manifest(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b"[" + b"{}," * (20 * MIB) + b"{}]")


def a_manifest_of_many_streams(file: Path) -> None:
    streams = {f"{number:x}": 1 for number in range(600_000)}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(EVENTS, b"x")
        archive.writestr(MANIFEST, manifest({EVENTS: b"x"}, streams=streams))


HOSTILE: list[tuple[Callable[[Path], None], str]] = [
    (highly_compressed, f"its history exceeds {MAX_HISTORY_BYTES:,} bytes"),
    (highly_compressed_in_another_way, "a compression other than deflate"),
    (a_larger_member_than_announced, "differs from the manifest"),
    (a_million_members, "more than 65000 members"),
    (many_members_by_zip64, "more than 65000 members"),
    (a_long_line, "a line of its history exceeds"),
    (lines_of_many_small_objects, "it cannot be read completely"),
    (payloads_of_many_small_objects, "is refused"),
    (deep_json, "it cannot be read completely"),
    (a_huge_manifest, "no readable manifest"),
    (a_manifest_of_many_streams, "it cannot be read completely"),
]


@pytest.mark.parametrize(("make", "why"), HOSTILE, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_refused_within_its_memory(
    make: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    file = tmp_path / "hostile.zip"
    make(file)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reason, peak_mib = done.stdout.splitlines()
    assert why in reason
    assert int(peak_mib) < MAX_MIB
