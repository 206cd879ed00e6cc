"""The option `ray`: what is refused when an intent is declared, and what Ray gets."""

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.handlers import RayHandler
from detent.app.ray_options import RayOptions, ray_options
from detent.app.run_context import Run
from detent.errors import Invalid, Misconfigured
from detent.worker.runners.ray.messages import Submit, TaskSpec
from detent.worker.runners.ray.node_resources import reason
from detent.worker.worker import Worker
from tests.ray import ray_app
from tests.worker.waiting import installation


def add(n: int) -> int:
    return n + 1


async def add_later(n: int) -> int:
    return n + 1


def durable(run: Run, n: int) -> int:
    return n


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num_gpu": 1}, r"ray\.num_gpu is not known\. Known: num_cpus, num_gpus"),
        ({"num_gpus": -1}, r"num_gpus must be a number from 0"),
        ({"num_gpus": 1.5}, r"num_gpus must be a whole number if it is above 1"),
        ({"num_cpus": "2"}, r"num_cpus must be a number from 0"),
        ({"num_cpus": float("nan")}, r"num_cpus must be a number from 0"),
        ({"memory_mb": 0}, r"memory_mb must be a whole number"),
        ({"resources": {"GPU": 1}}, r"write GPU as num_gpus"),
        ({"resources": ["phone"]}, r"resources must be a table of amounts"),
        ({"label_selector": {"zone": 1}}, r"label_selector must be a table of strings"),
        ({"runtime_env": "pip"}, r"runtime_env must be a table"),
        ("gpu", r"ray must be a table"),
    ],
)
def test_wrong_options_are_refused(given: Any, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        App().intent("train", ray=given)(add)


def test_a_function_that_nodes_cannot_import_is_refused() -> None:
    with pytest.raises(Invalid, match=r"cannot import .*<lambda>.*top level of a module"):
        App().intent("train", ray={})(lambda: None)
    with pytest.raises(Invalid, match=r"add_later is an async function.*`def`"):
        App().intent("train", ray={})(add_later)


def test_the_run_of_a_worker_is_refused() -> None:
    with pytest.raises(Invalid, match="annotate it with RayRun"):
        App().intent("train", ray={})(durable)


def test_options_become_those_of_a_ray_task() -> None:
    given = {
        "num_cpus": 2,
        "num_gpus": 0.5,
        "memory_mb": 100,
        "resources": {"phone": 1},
        "label_selector": {"zone": "eu"},
        "runtime_env": {"env_vars": {"A": "1"}},
    }
    made = ray_options(given, "ray")
    assert made.of_task() == {
        "num_cpus": 2.0,
        "num_gpus": 0.5,
        "memory": 100_000_000,
        "resources": {"phone": 1.0},
        "label_selector": {"zone": "eu"},
        "runtime_env": {"env_vars": {"A": "1"}},
    }
    assert made.amounts() == {"CPU": 2, "GPU": 0.5, "memory": 100_000_000, "phone": 1}
    assert RayOptions().of_task() == {"num_cpus": 1.0, "num_gpus": 0.0}


def test_the_plain_function_can_be_called() -> None:
    assert ray_app.double(3) == 6
    handler = ray_app.double.handler
    assert isinstance(handler, RayHandler)
    assert handler.reference == "tests.ray.ray_app:double"


# ---- what is missing -------------------------------------------------------------------------

NODES = [
    {"Resources": {"CPU": 4.0, "memory": 8e9}, "Labels": {"zone": "eu"}},
    {"Resources": {"CPU": 2.0, "GPU": 1.0}, "Labels": {"zone": "us"}},
]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"num_gpus": 2},
            "Ray has no node with 1 CPU, 2 GPUs. Its 2 nodes have: 4 CPUs, 0 GPUs; 2 CPUs, 1 GPU.",
        ),
        ({"memory_mb": 9_000}, "Ray has no node with 1 CPU, 9,000 MB of memory. Its 2 nodes have"),
        ({"resources": {"phone": 1}}, "Ray has no node with 1 CPU, 1 of phone."),
        ({"num_gpus": 1, "label_selector": {"zone": "eu"}}, "label zone=eu. Its 2 nodes"),
        ({"label_selector": {"zone": "!in(eu, us)"}}, "label zone=!in(eu, us). Its 2 nodes"),
        ({"label_selector": {"zone": "in(eu, us)"}}, "waits until a Ray node has 1 CPU, label"),
        ({"num_cpus": 4}, "waits until a Ray node has 4 CPUs free"),
    ],
)
def test_why_a_task_waits(given: Any, words: str) -> None:
    options = ray_options(given, "ray")
    spec = TaskSpec("k", "m:f", "run", "job", None, "demo", 1, 1, {}, {}, 100)
    assert words in reason(Submit(1, spec, options.of_task(), options.amounts()), NODES)


def test_a_worker_without_ray_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = metadata.version
    versions = {"ray": "2.9.3"}
    monkeypatch.setattr(
        "detent.optional_package.version", lambda name: versions.get(name) or found(name)
    )
    with installation(tmp_path, audited=False) as core:
        worker = Worker(core, ray_app.app)
        worker.executor.event_loop.loop.close()
        with pytest.raises(Misconfigured, match=r"ray 2\.9\.3 is too old: 2\.60 is needed") as old:
            worker.start()
    assert "pip install --upgrade 'detent[ray]'" in old.value.hint
