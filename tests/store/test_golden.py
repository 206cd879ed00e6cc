"""Databases that earlier versions wrote are opened, brought up, verified and worked on."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from detent.cli.main import cli
from detent.engine import Engine
from detent.integrity.hash_chain import Anchor
from detent.integrity.rebuild import rebuild
from detent.integrity.upgrade import upgrade_sqlite
from detent.integrity.verify import verify
from detent.store.sqlite import SqliteStore
from detent.testing.audit import audit, picture
from detent.testing.clock import START, VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete
from tools.golden import GOLDEN, found_in, make

DAY_US = 86_400_000_000
OLD = sorted(GOLDEN.glob("*.db.gz"))


def unpacked(golden: Path, to: Path) -> SqliteStore:
    to.mkdir(exist_ok=True)
    (to / "detent.db").write_bytes(gzip.decompress(golden.read_bytes()))
    upgrade_sqlite(str(to / "detent.db"), START + DAY_US, lambda *_: None)
    return SqliteStore(to / "detent.db", VirtualClock(START + DAY_US))


def test_there_are_databases_of_both_layouts(tmp_path: Path) -> None:
    layouts = set()
    for golden in OLD:
        path = tmp_path / golden.name
        path.write_bytes(gzip.decompress(golden.read_bytes()))
        layouts.add(upgrade_sqlite(str(path), START, lambda *_: None) is None)
    assert layouts == {True, False}


@pytest.mark.parametrize("golden", OLD, ids=lambda path: str(path.name))
def test_an_old_database_is_what_it_was(golden: Path, tmp_path: Path) -> None:
    expected = json.loads(golden.with_name(golden.name.replace(".db.gz", ".json")).read_text())
    store = unpacked(golden, tmp_path)
    assert verify(store, Anchor(**expected["anchor"])).differences == []
    assert found_in(store) == expected
    store.close()


@pytest.mark.parametrize("golden", OLD, ids=lambda path: str(path.name))
def test_an_old_log_makes_the_rows_of_today(golden: Path, tmp_path: Path) -> None:
    store = unpacked(golden, tmp_path)
    before = picture(store)
    rebuild(store, 1)
    after = picture(store)
    assert after.pop("queue") != before.pop("queue")  # leases are not in the log
    assert after == before
    audit(store)
    store.close()


@pytest.mark.parametrize("golden", OLD, ids=lambda path: str(path.name))
def test_work_goes_on_in_an_old_database(golden: Path, tmp_path: Path) -> None:
    store = unpacked(golden, tmp_path)
    engine = Engine(store)
    complete(engine, claim_one(engine, intents=["needed"]))
    assert claim_one(engine, intents=["waiting"]).job.task_id == "waiting"
    audit(store)
    store.close()


@pytest.mark.parametrize("golden", OLD, ids=lambda path: str(path.name))
def test_the_commands_of_the_upgrade_page_upgrade_an_old_database(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "detent.db").write_bytes(gzip.decompress(golden.read_bytes()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path))
    expected = json.loads(golden.with_name(golden.name.replace(".db.gz", ".json")).read_text())
    for command in ("db upgrade", "db status", "verify --accept-unsealed", "verify"):
        ended = CliRunner().invoke(cli, command.split())
        assert ended.exit_code == 0, f"{command}: {ended.output}"
    listed = json.loads(CliRunner().invoke(cli, ["tasks", "--json"]).output)["items"]
    assert {each["id"]: each["state"] for each in listed} == expected["tasks"]


def test_the_story_is_the_same_every_time(tmp_path: Path) -> None:
    make(tmp_path, "one")
    make(tmp_path, "two")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
