"""Power that goes, disks that fill up and fail: what was acknowledged is there, and it heals."""

from pathlib import Path
from random import Random

import pytest

from verification import power_loss
from verification.memory_directory import directory_in_memory

IMAGES = 2_000


def test_every_acknowledged_commit_is_in_every_image(tmp_path: Path) -> None:
    with directory_in_memory("detent-power-") as where:
        found = power_loss.try_images(power_loss.record(where / "recorded.db", 30), where, IMAGES)
        power_loss.audit_image(where / "image.db")
    assert found.problems == []
    assert (found.images, found.held > IMAGES) == (IMAGES, True)


def test_images_show_what_a_lesser_setting_would_lose(tmp_path: Path) -> None:
    """The same images with `synchronous = NORMAL`: acknowledged commits are gone."""
    with directory_in_memory("detent-power-") as where:
        trace = power_loss.record(where / "recorded.db", 20, synchronous="NORMAL")
        found = power_loss.try_images(trace, where, 200)
    assert any(each.startswith("P1") for each in found.problems)


@pytest.mark.parametrize("fault", power_loss.FAULTS)
def test_a_failing_disk_loses_nothing_and_heals(fault: str) -> None:
    raised = 0
    with directory_in_memory("detent-power-") as where:
        for nth in range(1, 25):
            count, found = power_loss.try_fault(where / f"{nth}.db", fault, nth, times=1 + nth % 3)
            assert found == [], f"{fault} at {nth}"
            raised += count
    assert raised >= 10


def test_a_torn_write_keeps_whole_sectors_only() -> None:
    write = power_loss.Operation("write", "db", 0, bytes(range(256)) * 16)
    torn = {len(power_loss._torn(write, Random(seed)).data) for seed in range(20)}
    assert len(torn) > 2
    assert all(size % power_loss.SECTOR == 0 and size > 0 for size in torn)
