"""A worker lowers its slots while memory is short, says so, and raises them again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.app.app import App
from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.operations.workers import list_workers
from detent.worker import memory_pressure
from detent.worker.memory_pressure import Memory, MemoryPressure, read_memory
from tests.worker.test_plan_workers import reasons
from tests.worker.waiting import Gate, installation, until, working

FREE, SHORT, BETWEEN, STALLED = Memory(50.0), Memory(3.0), Memory(6.0), Memory(50.0, 30.0)


def test_slots_go_down_one_by_one_to_one_and_up_again() -> None:
    now, memory = [0.0], [FREE]
    pressure = MemoryPressure(4, 5, lambda: memory[0], lambda: now[0])

    def after(seconds: float, state: Memory, held: int) -> int:
        now[0] += seconds
        memory[0] = state
        pressure.check(held)
        return pressure.slots

    assert after(1, FREE, 4) == 4
    assert [after(1, SHORT, held) for held in (4, 4, 3, 2, 1, 0)] == [3, 2, 1, 1, 1, 1]
    assert after(1, BETWEEN, 1) == 1, "not raised before there is clearly enough"
    assert after(0.5, FREE, 1) == 1, "at most once in a second"
    assert [after(1, FREE, 1) for _ in range(4)] == [2, 3, 4, 4]
    assert after(1, STALLED, 4) == 3, "tasks that wait for memory count too"


def test_without_a_reserve_nothing_is_read() -> None:
    def read() -> Memory:
        raise AssertionError("not read")

    assert MemoryPressure(4, 0, read).check(4) is False


def test_the_state_of_this_machine_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < read_memory().available_percent <= 100
    pressure = tmp_path / "memory"
    pressure.write_text("some avg10=80.00 avg60=1 total=3\nfull avg10=12.50 avg60=1 total=2\n")
    monkeypatch.setattr(memory_pressure, "PRESSURE", pressure)
    assert read_memory().stalled_percent == 12.5
    pressure.unlink()
    assert read_memory().stalled_percent == 0.0


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    with installation(tmp_path, worker_heartbeat_ms=50, worker_poll_ms=20) as made:
        yield made


def test_a_worker_short_of_memory_claims_less_and_says_why(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_pressure, "INTERVAL_S", 0.01)
    app, gate, memory = App(), Gate(), [FREE]

    @app.intent("work")
    def work(name: str) -> None:
        gate.pass_through(name)

    with working(core, app, concurrency=4) as worker:
        monkeypatch.setattr(worker.memory, "_read", lambda: memory[0])
        first = [work.submit(str(number)) for number in range(2)]
        until(lambda: len(gate.inside) == 2)
        memory[0] = SHORT
        until(lambda: worker.memory.slots == 1)
        later = work.submit("later")

        until(lambda: [*reasons(core, later.job_id)] == ["memory_short"], "why says it")
        row = list_workers(core, OWNER)["items"][0]
        assert (row["slots"], row["concurrency"]) == (1, 4)
        assert len(gate.inside) == 2, "runs go on, and none is added"
        memory[0] = FREE
        until(lambda: len(gate.inside) == 3, "the job starts when there is memory again")
        gate.open.set()
        for handle in (*first, later):
            handle.result(timeout=60)
