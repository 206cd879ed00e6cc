"""Files of an installation are for their owner alone, whatever the umask of its processes is."""

import stat
from pathlib import Path

from tests.e2e.installation import Installation, wait_until

CONFIG = """
[intents.note]
command = ["sh", "-c", "umask 077; echo seen > $DETENT_EVIDENCE_DIR/note.txt; echo done"]
"""


class Open(Installation):
    """An installation whose processes would let everybody read and write their files."""

    def _program(self, *arguments: str) -> list[str]:
        return ["sh", "-c", 'umask 000; exec "$@"', "sh", *super()._program(*arguments)]


def modes(top: Path) -> dict[str, str]:
    """Files and directories that others than the owner could use, with their modes."""
    found = {}
    for path in (top, *top.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink() and mode & 0o077:
            found[str(path.relative_to(top))] = oct(mode)
    return found


def test_every_file_and_directory_is_for_its_owner_alone(tmp_path: Path) -> None:
    detent = Open(tmp_path)
    (detent.project / "detent.toml").write_text(CONFIG)
    detent.data = detent.project / ".detent"
    detent.start()
    try:
        task_id = detent.json("submit", "note")["id"]
        detent.wait_for(task_id, "ready")
        wait_until(lambda: (detent.data / "state.json").exists(), "state.json")
        names = {path.name for path in detent.data.iterdir()}
        database = ("detent.db", "detent.db-wal", "detent.db-shm", "detent.db.lock")
        assert {*database, "token", "server.json", "state.json", "blobs", "runs"} <= names
        assert modes(detent.data) == {}
        made = detent.project / "made"
        made.mkdir(mode=0o700)
        detent.json("db", "backup", str(made / "copy.db"), "--with-blobs")
        detent.json("export", task_id, str(made / "task.zip"))
        assert detent.run("verify", "--write-anchor", str(made / "anchor.json")).returncode == 0
        saved = detent.run("evidence", "list", task_id, "--save", str(made / "evidence"))
        assert saved.returncode == 0, saved.stderr
        assert {path.name for path in made.iterdir()} >= {"copy.db", "task.zip", "anchor.json"}
        assert modes(made) == {}
    finally:
        detent.stop()
    assert modes(detent.data) == {}
