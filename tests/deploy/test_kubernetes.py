"""The Kubernetes manifests: valid for several versions, without rights, and with time to drain."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from detent.cli.main import COMMANDS
from detent.cli.probe import PROBES
from detent.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("base", "keda", "hpa")
VERSIONS = ("1.28", "1.32", kubernetes_validate.latest_version())
#: Of an operator that the cluster must have: its schema is not one of Kubernetes.
CUSTOM = ("ScaledObject",)

Manifest = dict[str, Any]


def flattened(name: str) -> list[Manifest]:
    """The manifests of a kustomization, as `kubectl kustomize` makes them of these files."""
    directory = DEPLOY / name
    wanted = yaml.safe_load((directory / "kustomization.yaml").read_text("utf-8"))
    assert set(wanted) <= {
        *("apiVersion", "kind", "namespace", "resources", "patches", "images"),
    }
    found: list[Manifest] = []
    for resource in wanted["resources"]:
        path = directory / resource
        assert path.exists(), path
        if path.is_dir():
            found += flattened(str(path.resolve().relative_to(DEPLOY)))
        else:
            found += yaml.safe_load_all(path.read_text("utf-8"))
    for patch in wanted.get("patches", ()):
        _patch(found, patch)
    for each in found:
        if each["kind"] != "Namespace":
            each["metadata"]["namespace"] = wanted["namespace"]
    return found


def _patch(manifests: list[Manifest], patch: Manifest) -> None:
    """The one kind of patch that is used: remove a field."""
    (change,) = yaml.safe_load(patch["patch"])
    assert change["op"] == "remove"
    (target,) = (
        each
        for each in manifests
        if (each["kind"], each["metadata"]["name"])
        == (patch["target"]["kind"], patch["target"]["name"])
    )
    *parents, last = change["path"].strip("/").split("/")
    for name in parents:
        target = target[name]
    del target[last]


def deployments(name: str = "base") -> Iterator[tuple[str, Manifest]]:
    for each in flattened(name):
        if each["kind"] == "Deployment":
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", OVERLAYS)
def test_the_manifests_are_valid(name: str, version: str) -> None:
    validated = 0
    for each in flattened(name):
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)
            validated += 1
    assert validated >= 9


def test_an_invalid_manifest_is_refused() -> None:
    (worker,) = (each for each in flattened("base") if each["metadata"]["name"] == "worker")
    worker["spec"]["template"]["spec"]["terminationGracePeriod"] = 150
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGracePeriod"):
        kubernetes_validate.validate(worker, VERSIONS[0], strict=True)


def test_every_part_has_a_command_and_probes_that_exist() -> None:
    found = dict(deployments())
    assert set(found) == {"gateway", "keeper", "worker"}
    for name, pod in found.items():
        (container,) = pod["containers"]
        assert container["args"][0] in COMMANDS
        probes = [container[each] for each in container if each.endswith("Probe")]
        assert probes, name
        for probe in probes:
            if "exec" in probe:
                assert probe["exec"]["command"] == ["python3", "-m", "detent", "probe", name]
                assert name in PROBES
            else:
                assert probe["httpGet"]["path"] in ("/ready", "/health")
                assert probe["httpGet"]["httpHeaders"][0]["value"] == "localhost:5680"


@pytest.mark.parametrize(("name", "pod"), list(deployments()))
def test_a_pod_has_no_rights(name: str, pod: Manifest) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert {"/var/lib/detent", "/tmp"} <= mounted


def test_a_worker_drains_for_longer_than_its_lease() -> None:
    pod = dict(deployments())["worker"]
    values = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    grace_ms = int(values["DETENT_WORKER_GRACE_MS"])
    assert grace_ms > Settings().worker_lease_ms
    assert pod["terminationGracePeriodSeconds"] * 1_000 > 2 * grace_ms


def test_the_autoscalers_count_held_work_for_each_worker() -> None:
    """The metric counts held jobs, so its sum is above 0 as long as a worker works."""
    pod = dict(deployments("keda"))["worker"]
    values = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    concurrency = values["DETENT_WORKER_CONCURRENCY"]
    (scaled,) = (each for each in flattened("keda") if each["kind"] == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["metadata"]["query"] == "sum(max by (kind) (detent_workload_jobs))"
    assert trigger["metadata"]["threshold"] == concurrency
    assert scaled["spec"]["minReplicaCount"] == 0
    assert scaled["spec"]["cooldownPeriod"] > pod["terminationGracePeriodSeconds"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == "worker"
    (scaler,) = (each for each in flattened("hpa") if each["kind"] == "HorizontalPodAutoscaler")
    (metric,) = scaler["spec"]["metrics"]
    assert metric["external"]["target"]["averageValue"] == concurrency
    down = scaler["spec"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] > pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("name", ["keda", "hpa"])
def test_an_overlay_leaves_the_number_of_workers_to_the_autoscaler(name: str) -> None:
    replicas = {
        each["metadata"]["name"]: each["spec"].get("replicas")
        for each in flattened(name)
        if each["kind"] == "Deployment"
    }
    assert replicas == {"gateway": 2, "keeper": 2, "worker": None}
