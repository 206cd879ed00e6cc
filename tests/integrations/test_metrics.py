"""Metrics: stable names, values that match the log, bounded series, and authentication."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from detent import feed
from detent.app.app import App
from detent.app.failures import NetworkError
from detent.app.run_context import Run
from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import Misconfigured
from detent.gateway.auth import ensure_token
from detent.gateway.server import Server
from detent.integrations.telemetry.metrics import MAX_NAMES, Metrics
from detent.integrations.telemetry.store_gauges import StoreCollector
from detent.keeper.keeper import Duty, Keeper
from detent.kernel import commands as c
from detent.kernel.plan import PlanStep
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope
from detent.operations.tokens import issue
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.store.store_url import open_store
from detent.store.types import LoggedEvent
from detent.testing.clock import VirtualClock
from detent.testing.harness import Harness
from tests.gateway.installation import DEADLINE_S, until

PERSON = c.Actor("person")
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(metrics: Metrics) -> Samples:
    """Every sample of the page, parsed as Prometheus does."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def core(clock: VirtualClock) -> Core:
    store = MemoryStore(clock)
    return Core(store, Engine(store), Settings(), {"dig": {}})


def observed(core: Core) -> Metrics:
    """Metrics after reading the whole log, with one batch for each event."""
    made = Metrics(core)
    for each in feed.read(core.store, 0):
        made.observe([each])
    return made


def submit(core: Core, task_id: str = "t", **more: Any) -> None:
    fields = {"project": "p", "lifecycle": "board", "intent": "dig", "source": "cli", **more}
    command = c.SubmitTask(task_id, queue=True, **fields)
    core.engine.do(command, PERSON)


def claim(core: Core) -> c.Grant:
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    return claimed.grant


# ---- the four families of steps --------------------------------------------------------------


def test_steps_have_the_names_and_labels_that_dashboards_know() -> None:
    app = App()
    tries: list[str] = []

    @app.intent("fetch")
    def fetch() -> str:
        tries.append("fetch")
        if len(tries) == 1:
            raise NetworkError("not now")
        return "page"

    @app.intent("keep")
    def keep(run: Run) -> None:
        return None

    first = PlanStep("fetch", "fetch", capabilities_required=("net", "browser"))
    app.plan("release", [first, PlanStep("store", "keep", needs=("fetch",))])
    harness = Harness(app)
    harness.resource("r1", capabilities=["net", "browser"])
    harness.submit("release")
    harness.drain(advance=True)
    core = Core(harness.store, harness.engine)
    samples = read(observed(core))
    moved = "step_state_transitions_total"
    step = {"step_id": "fetch"}
    assert value(samples, moved, **step, from_state="none", to_state="pending") == 1
    assert value(samples, moved, **step, from_state="leased", to_state="running") == 1
    assert value(samples, moved, **step, from_state="running", to_state="failed_retryable") == 1
    assert value(samples, moved, **step, from_state="retrying", to_state="running") == 1
    assert value(samples, moved, **step, from_state="running", to_state="succeeded") == 1
    need = {**step, "capability": "browser+net"}
    assert value(samples, "step_retries_total", **need) == 1
    assert value(samples, "step_duration_seconds_count", **need, status="succeeded") == 1
    assert value(samples, "step_duration_seconds_count", **need, status="failed_retryable") == 1
    other = {"step_id": "store", "capability": "", "status": "succeeded"}
    assert value(samples, "step_duration_seconds_count", **other) == 1
    assert value(samples, "steps_by_state", state="succeeded") == 2


# ---- tasks, jobs and runs --------------------------------------------------------------------


def test_the_same_family_for_tasks_jobs_and_runs(core: Core, clock: VirtualClock) -> None:
    submit(core)
    clock.advance(seconds=2)
    grant = claim(core)
    run = f"{grant.job_id}-r1"
    core.engine.do(c.ChargeRun(grant, run, 2_500_000), PERSON)
    clock.advance(seconds=3)
    core.engine.do(c.CompleteRun(grant, run, None, 0), PERSON)
    samples = read(observed(core))
    for level, source, target in (
        ("task", "none", "inbox"),
        ("task", "inbox", "todo"),
        ("task", "todo", "doing"),
        ("task", "doing", "done"),
        ("job", "none", "queued"),
        ("job", "queued", "running"),
        ("job", "running", "completed"),
        ("run", "none", "queued"),
        ("run", "queued", "running"),
        ("run", "running", "succeeded"),
    ):
        labels = {"intent": "dig", "from_state": source, "to_state": target}
        assert value(samples, f"{level}_state_transitions_total", **labels) == 1, level
    assert value(samples, "run_duration_seconds_sum", intent="dig", status="succeeded") == 3
    assert value(samples, "job_duration_seconds_sum", intent="dig", status="completed") == 5
    assert value(samples, "task_duration_seconds_sum", intent="dig", status="done") == 5
    assert value(samples, "tasks_by_state", state="done") == 1
    assert value(samples, "jobs_by_state", state="completed") == 1
    assert value(samples, "runs_by_state", state="succeeded") == 1
    assert value(samples, "detent_claims_total", intent="dig") == 1
    assert value(samples, "detent_cost_usd_total", intent="dig") == 2.5
    assert value(samples, "detent_success_ratio") == 1


def test_a_dismissed_subtask_is_counted_once_for_its_tree(core: Core) -> None:
    submit(core, "top")
    claim(core)
    for child, parent in (("middle", "top"), ("low", "middle")):
        submit(core, child, parent_id=parent)
    core.engine.do(c.CancelTask("low"), PERSON)
    core.engine.do(c.DismissSubtask("low"), PERSON)
    samples = read(observed(core))
    assert value(samples, "detent_subtasks_dismissed_total", intent="dig") == 1


def test_a_lost_worker_is_a_reclaim_a_retry_and_a_refused_write(
    core: Core, clock: VirtualClock
) -> None:
    from detent.engine import due_timers

    submit(core)
    late = claim(core)
    clock.advance(seconds=31)
    core.engine.transaction(lambda tx: due_timers.run(tx, 10, core.engine.lifetimes))
    claim(core)
    (refused,) = core.engine.execute([_ask(c.CompleteRun(late, f"{late.job_id}-r1"))])
    assert refused.code == "stale_fence"  # type: ignore[union-attr]
    samples = read(observed(core))
    assert value(samples, "detent_reclaims_total", intent="dig") == 1
    assert value(samples, "detent_claims_total", intent="dig") == 2
    assert value(samples, "job_retries_total", intent="dig") == 1
    assert value(samples, "detent_stale_writes_refused_total") == 1


def _ask(command: c.Command) -> Any:

    return CommandRequest(command, PERSON)


def test_a_stream_is_read_from_its_beginning(core: Core) -> None:
    submit(core)
    grant = claim(core)
    seen = feed.head(core.store)
    core.engine.do(c.CompleteRun(grant, f"{grant.job_id}-r1", None, 0), PERSON)
    made = Metrics(core)
    made.observe(feed.read(core.store, seen))
    samples = read(made)
    labels = {"intent": "dig", "from_state": "doing", "to_state": "done"}
    assert value(samples, "task_state_transitions_total", **labels) == 1
    assert not any("inbox" in dict(key).values() for _, key in samples)


# ---- gauges ----------------------------------------------------------------------------------


def test_the_length_and_age_of_the_queue(core: Core, clock: VirtualClock) -> None:
    submit(core, "a", priority="P0")
    clock.advance(seconds=90)
    submit(core, "b")
    samples = read(Metrics(core))
    assert value(samples, "detent_queue_age_seconds") == 90
    assert value(samples, "detent_queue_length", priority="P0") == 1
    assert value(samples, "detent_queue_length", priority="P2") == 1
    assert value(samples, "detent_health", verdict="ok") == 1


def test_scraping_takes_a_bounded_share_of_time(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    counted: list[float] = []

    def slow(_: Core) -> list[Any]:
        counted.append(now[0])
        now[0] += 2.0
        return []

    monkeypatch.setattr("detent.integrations.telemetry.store_gauges.time.monotonic", lambda: now[0])
    monkeypatch.setattr("detent.integrations.telemetry.store_gauges.by_state", slow)
    standing = StoreCollector(core, list)
    for _ in range(100):
        list(standing.collect())
        now[0] += 1.0
    assert len(counted) == 3


def test_names_over_the_maximum_are_counted_as_other(core: Core) -> None:
    for number in range(MAX_NAMES + 5):
        command = c.SubmitJob(f"j{number}", "p", f"intent{number}")
        core.engine.do(command, PERSON)
    samples = read(observed(core))
    made = [key for key in samples if key[0] == "job_state_transitions_total"]
    assert len(made) == MAX_NAMES + 1
    labels = {"intent": "other", "from_state": "none", "to_state": "queued"}
    assert value(samples, "job_state_transitions_total", **labels) == 5


def test_the_keeper_counts_its_passes(core: Core) -> None:
    keeper = Keeper(core, "k", [Duty("note", 0, lambda _: 0)])
    metrics = Metrics(core, keeper.passes)
    assert value(read(metrics), "detent_keeper_elected") == 0
    keeper.run_once()
    assert value(read(Metrics(core, keeper.passes)), "detent_keeper_elected") == 1
    assert value(read(metrics), "detent_keeper_passes_total", duty="note") == 1


# ---- over HTTP -------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Core, str, str]]:
    """A gateway with metrics: its core, its address, its token."""
    settings = Settings(
        store_data_dir=str(tmp_path),
        gateway_port=0,
        gateway_metrics_open=getattr(request, "param", False),
    )
    store = open_store(settings.url)
    core = Core(store, Engine(store), settings, {"dig": {}})
    token = ensure_token(core).read_text("ascii").strip()
    metrics = Metrics(core)
    server = Server(core, metrics)
    metrics.start()
    yield core, f"http://127.0.0.1:{server.start()}", token
    server.stop()
    metrics.stop()
    store.close()


def test_the_page_needs_a_token_and_follows_the_feed(served: tuple[Core, str, str]) -> None:
    core, url, token = served
    assert httpx2.get(f"{url}/metrics", timeout=DEADLINE_S).status_code == 401
    submit(core)
    headers = {"Authorization": f"Bearer {token}"}

    def page() -> str:
        answer = httpx2.get(f"{url}/metrics", headers=headers, timeout=DEADLINE_S)
        assert answer.headers["content-type"].startswith("text/plain")
        return answer.text

    moved = 'task_state_transitions_total{from_state="inbox",intent="dig",to_state="todo"} 1.0'
    until(lambda: moved in page())
    asked = 'detent_http_requests_total{method="GET",path="%s",status="%s"}'
    assert asked % ("/metrics", 200) in page()
    assert asked % ("other", 401) in page()


def test_nothing_is_read_before_the_first_scrape(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page counts everything since the start; from then on the log is followed."""
    metrics = Metrics(core)
    submit(core, "before")
    metrics.start()
    submit(core, "t1")
    claim(core)
    observed: list[LoggedEvent] = []
    observe = metrics.observe

    def noted(batch: Sequence[LoggedEvent]) -> None:
        observed.extend(batch)
        observe(batch)

    monkeypatch.setattr(metrics, "observe", noted)
    assert observed == []
    created = 'task_state_transitions_total{from_state="none",intent="dig",to_state="inbox"} 1.0'
    assert created in metrics.page().decode()
    assert {each.stream for each in observed} >= {"t1"}
    assert "before" not in {each.stream for each in observed if each.version == 1}
    submit(core, "t2")
    until(lambda: created.replace("1.0", "2.0") in metrics.page().decode())
    metrics.stop()


def test_the_first_scrape_counts_a_bounded_number_of_events(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.integrations.telemetry.metrics.MAX_BEFORE", 3)
    metrics = Metrics(core)
    metrics.start()
    for name in ("t1", "t2", "t3", "t4"):
        submit(core, name)
    total = sum(
        number
        for (name, labels), number in read(metrics).items()
        if name in ("task_state_transitions_total", "job_state_transitions_total")
    )
    metrics.stop()
    assert 0 < total <= 3


def test_a_token_of_one_project_does_not_see_all(served: tuple[Core, str, str]) -> None:
    core, url, _ = served
    theirs = Caller("them", frozenset({Scope.READ}), "q")
    token = core.engine.transaction(lambda tx: issue(tx, theirs))
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx2.get(f"{url}/metrics", headers=headers, timeout=DEADLINE_S).status_code == 403
    assert httpx2.get(f"{url}/api/tasks", headers=headers, timeout=DEADLINE_S).status_code == 200


@pytest.mark.parametrize("served", [True], indirect=True)
def test_metrics_without_a_token_on_loopback_by_setting(served: tuple[Core, str, str]) -> None:
    _, url, _ = served
    assert httpx2.get(f"{url}/metrics", timeout=DEADLINE_S).status_code == 200
    assert httpx2.get(f"{url}/api/tasks", timeout=DEADLINE_S).status_code == 401


def test_metrics_always_need_a_token_beyond_loopback(core: Core) -> None:
    core.settings = Settings(
        gateway_host="0.0.0.0", gateway_public=True, gateway_metrics_open=True, gateway_port=0
    )
    with pytest.raises(Misconfigured, match="needs a loopback address"):
        Server(core).start()


# ---- alerts ----------------------------------------------------------------------------------


def test_alerts_use_existing_metrics_and_the_health_thresholds(core: Core) -> None:
    submit(core)
    families = text_string_to_metric_families(Metrics(core).page().decode())
    known = {family.name for family in families}
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {*rules[0]} == {"alert", "expr", "for", "labels", "annotations"}
    for rule in rules:
        named = set(re.findall(r"\b(?:detent|run|task|job|step)_[a-z_]+", rule["expr"]))
        assert named, rule["alert"]
        for name in named:
            assert re.sub(r"_(sum|count|bucket|total)$", "", name) in known, name
    limits = {rule["alert"]: rule["expr"].split()[-2:] for rule in rules}
    assert limits["DetentSuccessRateLow"] == ["<=", "0.95"]
    assert limits["DetentSuccessRateVeryLow"] == ["<", "0.80"]
    assert limits["DetentRunsSlow"] == [">=", "300"]
    assert limits["DetentQueueLong"] == [">=", "10"]
    assert limits["DetentQueueVeryLong"] == [">", "50"]
    assert limits["DetentTasksBlocked"] == [">=", "3"]
    assert limits["DetentManyTasksBlocked"] == [">", "10"]
    assert limits["DetentRunsFailed"] == [">=", "5"]
