"""The model of the throughput of several workers: its limits, and that it finds its own input."""

import pytest

from bench.machines.capacity_model import Costs, costs_of, predictions, throughput

COSTS = Costs(cpu_s=0.003, delay_s=0.025)


def test_one_slot_takes_the_whole_time_of_a_job() -> None:
    assert throughput(1, COSTS, 2) == pytest.approx(1 / 0.028)


def test_many_slots_use_all_cores() -> None:
    assert throughput(1_000, COSTS, 2) == pytest.approx(2 / 0.003, rel=0.01)
    assert throughput(1_000, COSTS, 8) == pytest.approx(8 / 0.003, rel=0.01)


def test_without_cpu_time_the_throughput_grows_with_the_slots() -> None:
    assert throughput(64, Costs(0.0, 0.02), 2) == pytest.approx(64 / 0.02)


def test_the_costs_of_a_run_give_its_throughput() -> None:
    rate = throughput(8, COSTS, 2)
    assert costs_of(rate, COSTS.cpu_s, 8, 2).delay_s == pytest.approx(COSTS.delay_s, rel=0.001)


def test_more_workers_are_predicted_from_one() -> None:
    rows = [
        {
            "work": "sleep",
            "workers": workers,
            "jobs_per_s": throughput(8 * workers, COSTS, 1.9),
            "cpu_us_per_job": 3_000.0,
            "idle_cores": 0.1,
        }
        for workers in (1, 2, 4)
    ]
    found = predictions(rows, slots=8, cores=2)
    assert [each.workers for each in found] == [2, 4]
    assert [each.error for each in found] == pytest.approx([0, 0], abs=0.001)


def test_figures_without_cpu_times_give_no_prediction() -> None:
    assert predictions([{"work": "sleep", "workers": 1, "jobs_per_s": 9.0}], 8, 2) == []
