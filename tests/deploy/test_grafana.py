"""The Grafana dashboard and the alerts: a real Prometheus that scrapes detent runs every query."""

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from detent.testing import stand_in_agent
from tests.deploy.prometheus_server import Prometheus, prometheus
from tests.e2e.installation import Installation, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "detent.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
CONFIG = """
[agents.claude]
argv = {argv}
variables = {{ STAND_IN_SCRIPT = {script} }}

[intents.fixBug]
agent = "claude"
prompt = "Fix it."

[intents.broken]
command = ["false"]
retry = {{ retries = 1, delay_ms = 1 }}
"""
ARGV: list[Any] = [
    *(sys.executable, stand_in_agent.__file__, "-p", "{prompt}", "--model", "claude-opus-9"),
    ["--session-id", "{session_id}"],
]
#: What Grafana replaces in a query.
VARIABLES = {"$__rate_interval": "1m", "$project": ".*"}
METRIC = re.compile(r"\b(?:detent_[a-z_]+|(?:run|task|job|step)s?_[a-z_]+)\b")


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("scraped"))
    installation.data = installation.project / ".detent"
    script = installation.project / "script.json"
    script.write_text(json.dumps({"runs": [[{"tokens": [900, 80]}, {"cost": 0.5}]]}))
    text = CONFIG.format(argv=json.dumps(ARGV), script=json.dumps(str(script)))
    (installation.project / "detent.toml").write_text(text)
    installation.start()
    yield installation
    installation.stop()


def work(detent: Installation) -> None:
    """A task with an agent that succeeds, and one that is retried and fails."""
    common = {"run": True, "lifecycle": "board"}
    for intent, state in (("fixBug", "done"), ("broken", "blocked")):
        body = {**common, "intent": intent, "project": "shop"}
        detent.wait_for(detent.post("/api/tasks", body).json()["id"], state)


@pytest.fixture(scope="module")
def server(detent: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory, target = tmp_path_factory.mktemp("prometheus"), urlsplit(detent.url).netloc
    work(detent)
    with prometheus(directory, target, detent.data / "token", ALERTS) as running:
        # A rate needs two scrapes, with work between them.
        wait_until(lambda: running.query('up{job="detent"} == 1'), "the first scrape")
        work(detent)
        yield running


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    return found


def queries() -> list[tuple[str, str]]:
    """The title of each panel, with each of its queries."""
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    return [(panel["title"], each["expr"]) for panel in panels for each in panel["targets"]]


def filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, "a variable that the dashboard does not declare"
    return expression


@pytest.mark.parametrize(("title", "expression"), queries())
def test_a_query_returns_data(server: Prometheus, title: str, expression: str) -> None:
    def look() -> bool:
        found = server.query(filled(expression))
        return any(math.isfinite(value) for value in found.values())

    wait_until(look, f"{title}: {expression}")


def test_every_metric_of_a_query_exists(server: Prometheus) -> None:
    known = set(server.get("label/__name__/values"))
    for title, expression in queries():
        named = set(METRIC.findall(re.sub(r"by \([^)]*\)|\{[^}]*\}", "", expression)))
        assert named, title
        assert named <= known, f"{title}: {named - known}"


def test_the_values_of_the_models_are_those_of_the_work(server: Prometheus) -> None:
    used = {"model": "claude-opus-9", "project": "shop"}
    labels = 'model="claude-opus-9", project="shop"'

    def total(name: str, more: str = "") -> float:
        return sum(server.query(f"{name}{{{labels}{more}}}").values())

    wait_until(lambda: total("detent_model_runs_total") == 2, f"two runs of {used}")
    assert total("detent_model_cost_usd_total") == 1.0
    assert total("detent_model_tokens_total", ', type="input"') == 1_800
    assert total("detent_model_tokens_total", ', type="output"') == 160


def test_the_query_of_the_autoscaler_has_a_value(server: Prometheus) -> None:
    manifest = DEPLOY / "kubernetes" / "keda" / "scaled-object.yaml"
    (trigger,) = yaml.safe_load(manifest.read_text("utf-8"))["spec"]["triggers"]
    found = wait_until(lambda: server.query(trigger["metadata"]["query"]), "a value")
    assert set(found.values()) == {0.0}, "no work is left"


def test_the_variables_have_values(server: Prometheus) -> None:
    source, project = dashboard()["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", project["query"])
    assert found is not None
    assert "shop" in server.get(f"label/{found[2]}/values", **{"match[]": found[1]})


def test_the_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)


def test_prometheus_evaluates_every_alert(server: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in server.get("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: rules() and all(each["health"] != "unknown" for each in rules()), "alerts")
    assert {each["name"]: each.get("lastError", "") for each in rules()} == {
        each["name"]: "" for each in rules()
    }
    assert {each["health"] for each in rules()} == {"ok"}
