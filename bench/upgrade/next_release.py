"""The wheel of a simulated next release, made from the wheel of this one, to test upgrades.

It has a later version, two migrations for each store, a table that it writes, and an event with one
more field. Programs of this release can use the schema after the first migration, and not after the
second.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

from detent.store.migration_files import migrations

VERSION = "0.4.0.dev0"
STORES = ("sqlite", "postgres")
TABLE = "release_notes"
#: The first migration; a table of named values has the same columns as all of them.
EXPAND: Mapping[str, str] = {
    "sqlite": f"""
        ALTER TABLE active_jobs ADD COLUMN origin TEXT NOT NULL DEFAULT '';
        ALTER TABLE ended_jobs ADD COLUMN origin TEXT NOT NULL DEFAULT '';
        CREATE TABLE {TABLE} (
            name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, updated_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
    """,
    "postgres": f"""
        ALTER TABLE active_jobs ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT '';
        ALTER TABLE ended_jobs ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT '';
        CREATE TABLE {TABLE} (
            name text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL,
            updated_at bigint NOT NULL
        );
    """,
}
CONTRACT = f"CREATE INDEX {TABLE}_by_time ON {TABLE} (updated_at);\n"
#: In each file, a text and what replaces it.
CHANGES: Mapping[str, tuple[str, str]] = {
    "detent/store/table_names.py": ('    "snoozes",\n', f'    "snoozes",\n    "{TABLE}",\n'),
    "detent/operations/process_registry.py": (
        '        tx.put_rows("system_state", rows)\n',
        '        tx.put_rows("system_state", rows)\n'
        f'        tx.put_rows("{TABLE}", {{self.row: "written by the next release"}})\n',
    ),
    "detent/kernel/events/job.py": (
        "    attempt: int\n    run_id: str | None = None\n",
        '    attempt: int\n    run_id: str | None = None\n    build: str = "next"\n',
    ),
}


def make_next_release(wheel: Path, place: Path) -> Path:
    """Write the wheel of the next release to a directory."""
    made = place / f"detent-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        (info,) = {name.split("/")[0] for name in old.namelist() if ".dist-info/" in name}
        version = info.removeprefix("detent-").removesuffix(".dist-info")
        files: dict[str, bytes] = {}
        for name in old.namelist():
            data = old.read(name)
            if name == f"{info}/METADATA":
                data = _replaced(data, f"\nVersion: {version}\n", f"\nVersion: {VERSION}\n")
            if name in CHANGES:
                data = _replaced(data, *CHANGES[name])
            files[name.replace(info, f"detent-{VERSION}.dist-info")] = data
        files |= {name: text.encode() for name, text in _migrations().items()}
        record = f"detent-{VERSION}.dist-info/RECORD"
        files[record] = "".join(f"{name},,\n" for name in files).encode()
        for name, data in files.items():
            new.writestr(name, data)
    return made


def _migrations() -> Mapping[str, str]:
    found = {}
    for store in STORES:
        package = f"detent.store.{store}.migrations"
        next_number, folder = len(migrations(package)) + 1, package.replace(".", "/")
        found[f"{folder}/{next_number:04}_expand_{TABLE}.sql"] = EXPAND[store]
        found[f"{folder}/{next_number + 1:04}_contract_{TABLE}.sql"] = CONTRACT
    return found


def _replaced(data: bytes, old: str, new: str) -> bytes:
    text = data.decode()
    if text.count(old) != 1:
        raise ValueError(f"not once in the file: {old!r}")
    return text.replace(old, new).encode()
