"""Submissions on a cluster, without Ray: one execution for each key, fences, output, orphans."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from detent.worker.runners.ray import submissions as module
from detent.worker.runners.ray.messages import FOLLOWED, STALE, UNKNOWN, Ended, News, TaskSpec
from detent.worker.runners.ray.submissions import Launched, Submissions

ORPHAN_S, KEEP_S = 900.0, 90.0


class Cluster:
    """Submissions with tasks that the test ends, and a clock that it moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.launched: list[str] = []
        self.cancelled: list[str] = []
        self.ends: dict[str, asyncio.Future[Ended]] = {}
        self.all = Submissions(
            self._launch, orphan_s=ORPHAN_S, keep_s=KEEP_S, clock=lambda: self.now_s
        )

    def _launch(self, spec: TaskSpec, options: dict[str, Any]) -> Launched:
        self.launched.append(spec.key)
        self.ends[spec.key] = asyncio.get_running_loop().create_future()
        return Launched(self.ends[spec.key], {"a": b"1"}, lambda: self.cancelled.append(spec.key))

    async def submit(self, key: str, fence: int, follower: str = "one") -> str:
        spec = TaskSpec(key, "m:f", "run", "job", None, "demo", 1, fence, {}, {}, 100)
        return await self.all.submit(follower, spec, {})

    async def poll(self, follower: str = "one") -> list[News]:
        return await self.all.poll(follower, 0.01)

    async def end(self, key: str, ended: Ended) -> None:
        self.ends[key].set_result(ended)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def on_a_cluster(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test that is a coroutine with a cluster."""

    async def call() -> None:
        await test(Cluster())

    def run() -> None:
        asyncio.run(call())

    run.__name__ = test.__name__
    return run


@on_a_cluster
async def test_a_key_is_executed_once(cluster: Cluster) -> None:
    assert await cluster.submit("k", 1) == FOLLOWED
    assert await cluster.submit("k", 1) == FOLLOWED
    assert await cluster.submit("k", 2, "two") == FOLLOWED
    assert cluster.launched == ["k"]
    await cluster.end("k", Ended("completed", 5))
    (news,) = await cluster.poll("two")
    assert (news.fence, news.ended, news.evidence) == (2, Ended("completed", 5), {"a": b"1"})


@on_a_cluster
async def test_a_lower_fence_is_refused(cluster: Cluster) -> None:
    await cluster.submit("k", 1)
    await cluster.submit("k", 2, "two")
    assert await cluster.submit("k", 1) == STALE
    assert await cluster.all.attach("one", "k", 1) == STALE
    assert await cluster.all.cancel("k", 1) == STALE
    assert await cluster.all.leave("k", 1) == STALE
    assert cluster.cancelled == []
    assert await cluster.poll("one") == [News("k", 1, stale=True)]


@on_a_cluster
async def test_what_the_cluster_does_not_know_is_not_started_by_attach(cluster: Cluster) -> None:
    assert await cluster.all.attach("one", "k", 1) == UNKNOWN
    assert await cluster.all.cancel("k", 1) == UNKNOWN
    assert await cluster.all.write("k", b"late") is False
    assert cluster.launched == []


@on_a_cluster
async def test_output_is_given_until_it_is_confirmed(cluster: Cluster) -> None:
    await cluster.submit("k", 1)
    await cluster.all.write("k", b"a")
    assert [each.output for each in await cluster.poll()] == [(b"a",)]
    # The driver died before it confirmed: its successor gets the output again, and once.
    await cluster.all.attach("next", "k", 1)
    assert [each.output for each in await cluster.poll("next")] == [(b"a",)]
    await cluster.all.write("k", b"b")
    assert [each.output for each in await cluster.poll("next")] == [(b"b",)]


@on_a_cluster
async def test_each_follower_learns_that_the_output_was_cut(cluster: Cluster) -> None:
    await cluster.submit("k", 1)
    await cluster.all.write("k", b"a", is_cut=True)
    assert [(each.output, each.output_cut) for each in await cluster.poll()] == [((b"a",), True)]
    await cluster.poll()  # confirms
    await cluster.submit("k", 2, "next")
    assert [(each.output, each.output_cut) for each in await cluster.poll("next")] == [((), True)]


@on_a_cluster
async def test_a_task_that_prints_faster_than_it_is_read_waits(cluster: Cluster) -> None:
    await cluster.submit("k", 1)
    flood = asyncio.ensure_future(cluster.all.write("k", b"x" * module.MAX_WAITING_BYTES))
    await asyncio.sleep(0)
    await cluster.poll()
    assert not flood.done()
    await cluster.poll()  # confirms
    assert await flood is True


@on_a_cluster
async def test_a_task_that_no_driver_follows_is_cancelled(cluster: Cluster) -> None:
    await cluster.submit("left", 1)
    await cluster.submit("kept", 1, "two")
    cluster.now_s = ORPHAN_S - 1
    await cluster.poll("two")
    cluster.all.sweep()
    assert cluster.cancelled == []
    cluster.now_s = ORPHAN_S
    cluster.all.sweep()
    assert cluster.cancelled == ["left"]
    # A stale worker cannot start it again.
    assert await cluster.submit("left", 1) == STALE


@on_a_cluster
async def test_a_task_that_its_run_has_left_waits_for_another_run(cluster: Cluster) -> None:
    await cluster.submit("k", 1)
    assert await cluster.all.leave("k", 1) == FOLLOWED
    cluster.now_s = ORPHAN_S - 1
    await cluster.poll("one")  # the driver lives on, with other runs
    assert await cluster.submit("k", 2, "one") == FOLLOWED
    cluster.now_s = ORPHAN_S + 1
    cluster.all.sweep()
    assert (cluster.launched, cluster.cancelled) == (["k"], [])


@on_a_cluster
async def test_an_end_is_forgotten_after_it_was_known_for_a_while(cluster: Cluster) -> None:
    await cluster.submit("k", 1)
    await cluster.end("k", Ended("completed", 5))
    await cluster.poll()
    await cluster.poll()  # confirms
    cluster.now_s = KEEP_S - 1
    cluster.all.sweep()
    assert await cluster.submit("k", 2) == FOLLOWED  # the worker died before it reported
    assert [each.ended for each in await cluster.poll() if not each.stale] == [
        Ended("completed", 5)
    ]
    await cluster.poll()
    cluster.now_s = 2 * KEEP_S
    cluster.all.sweep()
    assert cluster.all.submissions == {}
    assert cluster.launched == ["k"]
