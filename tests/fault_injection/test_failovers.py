"""Failovers under Patroni: the short version of `./dev faults --only failovers`, and its checks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from detent.engine import Engine
from detent.store.memory import MemoryStore
from detent.testing.conformance.work_actions import submit_job
from verification.network import Machine
from verification.patroni import __main__ as program
from verification.patroni.acknowledgements import Acknowledgement, compare, read_record
from verification.patroni.cluster import PARAMETERS, ClusterFailed, Node, NoLeader, PatroniCluster
from verification.patroni.configuration import DEFAULTS, SHORT, Timing, cluster_settings
from verification.patroni.failovers import (
    NOTICE_S,
    Outcome,
    _acknowledged_inside,
    longest_gap,
)

ROOT = Path(__file__).resolve().parents[2]
CUT = "cut"


@pytest.mark.timeout(900)  # its processes are many, which takes its time on a busy machine
def test_nothing_acknowledged_is_lost_when_the_leader_is_cut_off() -> None:
    """Of the faults the hardest: only a leader that is cut off could acknowledge more."""
    command = [sys.executable, "-m", "verification.patroni", "--json", "--fault", CUT]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    (found,) = json.loads(ended.stdout.splitlines()[-1])
    assert found["problems"] == []
    assert set(found["gaps_s"]) == {CUT}
    for fault, (gap_s,) in found["gaps_s"].items():
        assert 0 < gap_s < SHORT.ttl + SHORT.loop_wait + NOTICE_S, fault
    assert min(found["counts"][each] for each in ("submitted", "completed", "task", "event")) > 0


def test_a_program_that_cannot_be_started_is_reported_immediately(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "etcd").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "verification.patroni", "--json"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    (found,) = json.loads(ended.stdout.splitlines()[-1])
    assert found["problems"] == ["after {}: etcd on a ended with 3"]
    assert ended.returncode == 1


@pytest.mark.parametrize(("is_primary", "kind"), [(False, NoLeader), (True, ClusterFailed)])
def test_a_wait_that_fails_says_whether_there_is_a_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_primary: bool, kind: type[ClusterFailed]
) -> None:
    monkeypatch.setattr(Node, "is_primary", is_primary)
    cluster = PatroniCluster.__new__(PatroniCluster)
    cluster.nodes = [Node(Machine("a", "namespace", "10.77.0.2"), tmp_path)]
    with pytest.raises(ClusterFailed, match="not within 0 s: it happens") as raised:
        cluster.until(lambda: False, "it happens", within_s=0.0)
    assert type(raised.value) is kind


@pytest.mark.parametrize(("without_leader", "clusters"), [(True, 2), (False, 1)])
def test_a_second_cluster_is_made_only_if_the_first_had_no_leader(
    monkeypatch: pytest.MonkeyPatch, without_leader: bool, clusters: int
) -> None:
    made: list[Timing] = []

    def once(timing: Timing, _faults: tuple[str, ...]) -> Outcome:
        made.append(timing)
        return Outcome(problems=["it failed"], without_leader=without_leader)

    monkeypatch.setattr(program, "_run_once", once)
    assert program._run(SHORT, (CUT,)).problems == ["it failed"]
    assert len(made) == clusters


def test_the_page_has_the_settings_of_the_tested_cluster() -> None:
    page = (ROOT / "docs/howto/high-availability.md").read_text("utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert yaml.safe_load(shown) == cluster_settings(DEFAULTS)
    assert page.count(f"/detent?{PARAMETERS}") == 2


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def record(*lines: tuple[str, str]) -> dict[str, list[Acknowledgement]]:
    return {"client": [Acknowledgement(kind, key, 1.0, 2.0) for kind, key in lines]}


def test_a_lost_job_or_task_is_found(store: MemoryStore) -> None:
    there = submit_job(Engine(store))
    found = compare(store, record(("submitted", there), ("submitted", "j9"), ("task", "t9")))
    assert found.problems == [
        "the acknowledged job j9 is lost",
        "the acknowledged task t9 is lost",
    ]
    assert found.counts["submitted"] == 2


def test_a_completion_that_is_lost_is_found(store: MemoryStore) -> None:
    there = submit_job(Engine(store))
    (problem,) = compare(store, record(("completed", there))).problems
    assert problem == f"the job {there} was completed, but is queued"


def test_a_reader_that_missed_or_repeated_an_event_is_found(store: MemoryStore) -> None:
    for _ in range(3):
        submit_job(Engine(store))
    with store.read() as view:
        log = view.events(0, 100)
    seen = [
        Acknowledgement("event", each.stream, 0.0, 0.0, each.position, each.version) for each in log
    ]
    assert compare(store, {"reader": seen[:-1]}).problems == []
    for wrong in (seen[1:], [seen[0], *seen], [*seen, seen[-1]]):
        (problem,) = compare(store, {"reader": wrong}).problems
        assert problem.startswith("the reader reader saw")


def test_an_acknowledgement_of_a_leader_that_was_cut_off_is_found() -> None:
    lines = [
        Acknowledgement("submitted", "before", 1.0, 2.1),
        Acknowledgement("submitted", "during", 3.0, 4.0),
        Acknowledgement("submitted", "until-after", 3.0, 6.0),
    ]
    assert list(_acknowledged_inside(lines, 2.0, 5.0)) == [
        "a leader that was cut off acknowledged submitted during"
    ]


def test_the_longest_gap_begins_with_the_last_acknowledgement_before_the_fault() -> None:
    assert longest_gap([1.0, 9.0, 9.5, 13.0, 13.1], 9.6) == 3.5
    assert longest_gap([], 1.0) == 0.0


def test_an_incomplete_last_line_of_a_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text('{"kind": "task", "id": "t1", "began": 1, "at": 2}\n{"kind": "ta')
    assert [each.id for each in read_record(path)] == ["t1"]
    assert read_record(tmp_path / "none.jsonl") == []
