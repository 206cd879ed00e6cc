"""Moves the output of ended runs from the database to the bucket, if one is configured."""

from collections.abc import Sequence

from detent.operations.context import Core
from detent.operations.output_times import SHARED_START
from detent.store.s3.bucket_outputs import BucketOutputs

#: The time after the end of a run in which its worker may still send output.
AFTER_END_US = 60_000_000
#: The maximum number of runs of one pass, and of runs that one query lists.
MAX_MOVED, MAX_LISTED = 50, 1_000
#: The offsets at which output and its times begin.
STARTS = (SHARED_START, 0)


def run(core: Core) -> int:
    """One bounded pass; returns the number of moved outputs."""
    outputs = core.store.outputs
    if not isinstance(outputs, BucketOutputs):
        return 0
    moved, after = 0, ""
    while moved < MAX_MOVED and (listed := outputs.live_runs(after, MAX_LISTED)):
        after = listed[-1]
        for run_id in _ended(core, listed)[: MAX_MOVED - moved]:
            outputs.move(run_id, STARTS)
            moved += 1
    return moved


def _ended(core: Core, run_ids: Sequence[str]) -> list[str]:
    with core.store.read() as view:
        before = view.now() - AFTER_END_US
        return [
            run.id
            for run in view.runs(run_ids)
            if run.ended_at is not None and run.ended_at < before
        ]
