"""A pipeline as a plan: fetch, encode two sizes in parallel on a pool of machines, publish."""

from typing import Any

from detent import App, PlanRequest, ResourceFailed, Run

app = App()

#: The machine of the pool that is broken in this example.
BROKEN = {"gpu-1"}


@app.intent("fetch")
def fetch(video: str) -> str:
    return f"{video}.mov"


@app.intent("encode", timeout_s=3600)
def encode(run: Run, height: int) -> str:
    """Encode on the machine that the step holds, `run.resource`."""
    if run.resource in BROKEN:
        raise ResourceFailed(f"{run.resource}: no such device")  # the step switches machines
    run.log(f"{run.results['fetch']} at {height} on {run.resource}")
    return f"{run.results['fetch']}.{height}"


@app.intent("publish")
def publish(run: Run) -> list[str]:
    return sorted(str(each) for each in run.results.values())


@app.planner("video")
def plan(request: PlanRequest) -> list[dict[str, Any]]:
    """Create the plan of a job from its payload."""
    video = request.payload["video"]
    sizes = request.payload.get("heights", [720, 1080])
    gpu = {"needs": ["fetch"], "capabilities_required": ["gpu"], "intent": "encode"}
    return [
        {"name": "fetch", "input": {"video": video}},
        *({"name": f"encode-{size}", "input": {"height": size}, **gpu} for size in sizes),
        {"name": "publish", "needs": [f"encode-{size}" for size in sizes]},
    ]
