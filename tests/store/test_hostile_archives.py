"""Archives that were tampered with are refused as a whole, and nothing of them is stored."""

import json
import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from detent.errors import DetentError, Refused
from detent.integrity import hash_chain
from detent.store.sqlite import SqliteStore
from detent.testing.audit import picture
from detent.testing.clock import START, VirtualClock
from detent.transfer import archive as archives
from detent.transfer.archive import EVENTS, MANIFEST, Archive
from tests.store.exporting import DAY_US, file, source, take

__all__ = ["file", "source"]

Files = dict[str, bytes]


def unpacked(file: Path) -> Files:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(file: Path, members: Files, modes: dict[str, int] | None = None) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data)


def announced(members: Files, change: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Make the manifest fit the members again, as an attacker would."""
    manifest = json.loads(members[MANIFEST])
    manifest["members"] = {
        name: {"sha256": sha256(data).hexdigest(), "size": len(data)}
        for name, data in members.items()
        if name != MANIFEST
    }
    lines = members[EVENTS].splitlines()
    try:
        events = [archives._event(line) for line in lines]
        manifest["events_chain"] = hash_chain.chained(hash_chain.START, events).hex()
    except ValueError:
        pass
    if change is not None:
        change(manifest)
    members[MANIFEST] = json.dumps(manifest).encode()


def altered(members: Files, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Rewrite the history, with all hashes put right."""
    events = [json.loads(line) for line in members[EVENTS].splitlines()]
    change(events)
    members[EVENTS] = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    announced(members)


def a_byte_of_evidence(members: Files) -> None:
    name = next(name for name in members if name.startswith("evidence/"))
    members[name] = members[name][:-1] + b"!"


def an_extra_member(members: Files) -> None:
    members["../../outside"] = b"evil"


def an_announced_path(members: Files) -> None:
    members["../../outside"] = b"evil"
    announced(members)


def an_absolute_path(members: Files) -> None:
    members["/etc/detent"] = b"evil"
    announced(members)


def a_member_less(members: Files) -> None:
    del members[EVENTS]


def wrong_name_of_evidence(members: Files) -> None:
    name = next(name for name in members if name.startswith("evidence/"))
    members["evidence/" + "0" * 64] = members.pop(name)
    announced(members)


def evidence_left_out(members: Files) -> None:
    del members[next(name for name in members if name.startswith("evidence/"))]
    announced(members)


def an_event_less(members: Files) -> None:
    altered(members, lambda events: events.__delitem__(3))


def a_state_that_cannot_be(members: Files) -> None:
    def change(events: list[dict[str, Any]]) -> None:
        events[1]["name"], events[1]["data"] = "task_accepted", '{"comment":null}'

    altered(members, change)


def an_unknown_event(members: Files) -> None:
    altered(members, lambda events: events[2].update(name="task_exploded"))


def nonsense_in_an_event(members: Files) -> None:
    altered(members, lambda events: events[0].update(data='{"title": 3}'))


def a_deep_value(members: Files) -> None:
    altered(members, lambda events: events[0].update(data="[" * 100_000))


def a_tombstone(members: Files) -> None:
    def change(events: list[dict[str, Any]]) -> None:
        last = events[-1]
        events.append(
            {
                **last,
                "position": last["position"] + 1,
                "version": last["version"] + 1,
                "name": "job_deleted",
                "subject": None,
                "data": '{"reason":"x","events":1,"runs":1}',
            }
        )

    altered(members, change)


def another_tree(members: Files) -> None:
    announced(members, lambda manifest: manifest.update(task="unknown"))


def an_id_that_is_a_path(members: Files) -> None:
    run_id = next(iter(json.loads(members[MANIFEST])["output"]))
    name = run_id.rpartition("-r")[0].rpartition("-j")[0]
    members[EVENTS] = members[EVENTS].replace(name.encode(), b"../../../evil")
    text = members[MANIFEST].replace(name.encode(), b"../../../evil")
    members[MANIFEST] = text
    announced(members)


def output_of_an_unknown_run(members: Files) -> None:
    def change(manifest: dict[str, Any]) -> None:
        digest = next(iter(manifest["output"].values()))
        manifest["output"] = {"unknown-r1": digest}

    announced(members, change)


def a_manifest_of_the_future(members: Files) -> None:
    announced(members, lambda manifest: manifest.update(version=2))


def a_manifest_with_more(members: Files) -> None:
    announced(members, lambda manifest: manifest.update(command="rm"))


def no_manifest(members: Files) -> None:
    del members[MANIFEST]


def a_negative_size(members: Files) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["members"][EVENTS]["size"] = -1

    announced(members, change)


#: What is done to an archive, and what its refusal says.
HOSTILE: dict[Callable[[Files], None], str] = {
    a_byte_of_evidence: "the SHA-256 or size of 'evidence/",
    an_extra_member: "'../../outside' is not in the manifest",
    an_announced_path: "'../../outside' is not a valid name of a member",
    an_absolute_path: "'/etc/detent' is not a valid name of a member",
    a_member_less: "'events.jsonl' is missing",
    wrong_name_of_evidence: "is not the SHA-256 of its evidence",
    evidence_left_out: "is missing",
    an_event_less: "the events of its streams differ from the manifest",
    a_state_that_cannot_be: "its history is invalid",
    an_unknown_event: "its history is invalid",
    nonsense_in_an_event: "its history is invalid",
    a_deep_value: "its history is invalid",
    a_tombstone: "was deleted",
    another_tree: "the task unknown is not in the archive",
    an_id_that_is_a_path: "is not a valid id",
    output_of_an_unknown_run: "there is no run 'unknown-r1'",
    a_manifest_of_the_future: "a format that this version of detent does not support",
    a_manifest_with_more: "unknown field `command`",
    no_manifest: "no readable manifest",
    a_negative_size: "differs from the manifest",
}


def refused_as_a_whole(file: Path, tmp_path: Path) -> str:
    """Nothing of it is stored, neither rows nor blobs nor output; why it was refused."""
    data = tmp_path / "empty"
    store = SqliteStore(data / "detent.db", VirtualClock(START + DAY_US))
    try:
        before = picture(store)
        with pytest.raises(DetentError) as refused:
            take(store, file, data)
        assert refused.value.code == "bad_archive"
        assert picture(store) == before
        assert sorted(path.name for path in data.iterdir() if path.is_dir()) == []
        assert not (tmp_path / "evil").exists()
        return refused.value.message
    finally:
        store.close()


@pytest.mark.parametrize("harm", HOSTILE, ids=lambda harm: str(harm.__name__))
def test_hostile_archives_are_refused(
    file: Path, tmp_path: Path, harm: Callable[[Files], None]
) -> None:
    members = unpacked(file)
    harm(members)
    packed(tmp_path / "hostile.zip", members)
    assert HOSTILE[harm] in refused_as_a_whole(tmp_path / "hostile.zip", tmp_path)


def test_more_than_the_limit_is_refused_before_it_is_unpacked(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = unpacked(file)
    zeros = bytes(5_000_000)
    members[f"evidence/{sha256(zeros).hexdigest()}"] = zeros
    announced(members)
    packed(tmp_path / "bomb.zip", members)
    assert (tmp_path / "bomb.zip").stat().st_size < 100_000
    monkeypatch.setattr(archives, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(Archive, "read", None)  # nothing may be unpacked
    assert "its content exceeds" in refused_as_a_whole(tmp_path / "bomb.zip", tmp_path)


def test_a_member_that_grows_beyond_its_size_is_refused(file: Path, tmp_path: Path) -> None:
    """The sizes in the container and in the manifest are forged, and agree."""
    members = unpacked(file)
    zeros = bytes(5_000_000)
    name = f"evidence/{sha256(bytes(10)).hexdigest()}"
    announced(members)
    manifest = json.loads(members[MANIFEST])
    manifest["members"][name] = {"sha256": name.partition("/")[2], "size": 10}
    packed(tmp_path / "bomb.zip", {**members, name: zeros, MANIFEST: json.dumps(manifest).encode()})
    data = (tmp_path / "bomb.zip").read_bytes()
    size = len(zeros).to_bytes(4, "little")
    assert data.count(size) == 2  # before the member, and in the directory at the end
    (tmp_path / "bomb.zip").write_bytes(data.replace(size, (10).to_bytes(4, "little")))
    assert "cannot be read completely" in refused_as_a_whole(tmp_path / "bomb.zip", tmp_path)


def test_links_and_doubles_are_refused(file: Path, tmp_path: Path) -> None:
    members = unpacked(file)
    name = next(name for name in members if name.startswith("evidence/"))
    packed(tmp_path / "link.zip", members, {name: stat.S_IFLNK | 0o777})
    assert "is not a regular file" in refused_as_a_whole(tmp_path / "link.zip", tmp_path)
    packed(tmp_path / "twice.zip", members)
    with (
        zipfile.ZipFile(tmp_path / "twice.zip", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate"),
    ):
        archive.writestr(name, members[name])
    assert "twice" in refused_as_a_whole(tmp_path / "twice.zip", tmp_path)


@pytest.mark.parametrize("part", [0, 1, 10, 0.3, 0.9, 0.99])
def test_a_truncated_archive_is_refused(file: Path, tmp_path: Path, part: float) -> None:
    data = file.read_bytes()
    keep = part if isinstance(part, int) else int(len(data) * part)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(data[:keep])
    refused_as_a_whole(cut, tmp_path)


def test_every_flipped_byte_is_noticed_or_harmless(file: Path, tmp_path: Path) -> None:
    """A byte of the container that is not read may change; the stored data never does."""
    data = file.read_bytes()
    original = unpacked(file)
    for at in range(0, len(data), 211):
        flipped = tmp_path / "flipped.zip"
        flipped.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with suppress(Refused), Archive(flipped) as archive:
            if not archive.flaws():
                assert unpacked(flipped) == original
