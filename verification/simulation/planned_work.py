"""The planned work of a simulation: what plans there are, what their steps hold, and what they do.

A plan follows from a seed and its version alone, so that making it again gives the same plan.
"""

import random
from collections.abc import Mapping
from typing import Any

from detent.app.app import App
from detent.app.plan_request import PlanRequest

INTENT = "dig"
#: What steps need: some workers have both, some only one.
STEP_INTENTS = ("saw", "weld")
ABILITIES: tuple[tuple[str, ...], ...] = (
    *(STEP_INTENTS, STEP_INTENTS[:1], STEP_INTENTS, STEP_INTENTS[1:]),
)
#: By resource, what it offers and to how many holders. A switch away from `kiln` finds no other.
RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "press-1": {"capabilities": ["press"], "capacity": 1},
    "press-2": {"capabilities": ["press"], "capacity": 1},
    "crane": {"capabilities": ["lift"], "capacity": 2},
    "kiln": {"capabilities": ["fire"], "capacity": 1},
    "key-1": {"capabilities": [], "capacity": 1, "service": "mill"},
    "key-2": {"capabilities": [], "capacity": 2, "service": "mill"},
    "key-3": {"capabilities": [], "capacity": 2, "service": "forge"},
}
#: What many steps name instead, in their order of preference.
PROVIDERS = (["key-1", "key-2"], ["key-2", "key-3"], ["key-3", "key-1", "key-2"], ["key-1"])
PROVIDER_NAMES = frozenset(name for name, row in RESOURCES.items() if "service" in row)
WANTED = ((), ("press",), ("press",), ("lift",), ("fire",))
MAX_STEPS = 4
LONGEST_HOLD_MS = 15_000


def document(seed: str, version: int) -> dict[str, Any]:
    """A plan; most steps of one version are in the next one too, with the same input.

    Many later versions have the first step only, which may be done already.
    """
    rng = random.Random(f"{seed}/{version}")
    most = 1 if version > 1 and rng.random() < 0.5 else MAX_STEPS
    names = "abcdef"[: rng.randint(1, most)]
    return {"steps": [_step(rng, seed, names[:at], name, version) for at, name in enumerate(names)]}


def _step(rng: random.Random, seed: str, before: str, name: str, version: int) -> dict[str, Any]:
    lasting = random.Random(f"{seed}/{name}")
    step = {
        "name": name,
        "intent": lasting.choice(STEP_INTENTS),
        "needs": [each for each in before if rng.random() < 0.5],
        "capabilities_required": list(lasting.choice(WANTED)),
        "max_retries": rng.randint(0, 2),
        "hold_resource_ms": rng.choice((0, LONGEST_HOLD_MS)),
        "input": {"since": version if rng.random() < 0.3 else 1},
    }
    providers = random.Random(f"{seed}/{name}/providers")
    if providers.random() < 0.4:
        may_switch = providers.random() < 0.6
        step |= {"providers": providers.choice(PROVIDERS), "switch_provider": may_switch}
        step["capabilities_required"] = []
    if step["needs"] and rng.random() < 0.2:
        step["when"] = "all_done"
    if rng.random() < 0.2:
        step["acquire_timeout_ms"] = 60_000
    return step


def script(job_id: str, version: int, name: str) -> list[str]:
    """What a step does, one after the other: work, sleep once, spend."""
    rng = random.Random(f"{job_id}/{version}/{name}")
    acts = ["effect"]
    if rng.random() < 0.3:
        acts.insert(rng.randrange(2), rng.choice(("timer", "signal")))
    if rng.random() < 0.8:
        acts.insert(rng.randrange(len(acts) + 1), "spend")
    return acts


#: How many of the planners' calls fail; for which jobs and versions follows from the seed.
FAILING = 0.05


def _plan(request: PlanRequest) -> dict[str, Any]:
    """Some fail for good, and some make a plan that names what does not exist."""
    seed = request.payload["seed"]
    drawn = random.Random(f"{seed}/planner/{request.version}").random()
    if drawn < FAILING / 2:
        raise RuntimeError("no plan comes to mind")
    made = document(seed, request.version)
    if drawn < FAILING:
        made["steps"][0]["intent"] = "nothing"
    return made


def app_for(intents: tuple[str, ...]) -> App:
    """As a worker would have it: the planner of jobs that bring no plan, and intents of steps."""
    app = App()
    app.planner(INTENT)(_plan)
    for name in intents:
        app.intent(name)(lambda: None)
    return app


APPS = {intents: app_for(intents) for intents in ABILITIES}
#: What all workers together have registered.
INTENTS = {name: row.row() for name, row in APPS[STEP_INTENTS].intents.items()}
