"""Why a Ray task has not started: no node has its resources, or all that have them are busy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from detent.worker.runners.ray.messages import Submit

MB = 1_000_000
UNITS = {"CPU": "CPUs", "GPU": "GPUs"}


def why_pending(waiting: Sequence[Submit]) -> dict[str, str]:
    """By key, why each submission waits."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    return {each.spec.key: reason(each, nodes) for each in waiting}


def reason(submit: Submit, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Why one submission waits, in words; `nodes` as Ray describes them."""
    labels = submit.options.get("label_selector", {})
    wanted = _shown(submit.amounts, labels)
    if not any(_fits(node, submit.amounts, labels) for node in nodes):
        have = "; ".join(_shown(node["Resources"], {}, submit.amounts) for node in nodes)
        return (
            f"Ray has no node with {wanted}. Its {len(nodes)} nodes have: {have}. Add a node, or "
            "change the option ray of the intent"
        )
    return f"waits until a Ray node has {wanted} free"


def _fits(node: Mapping[str, Any], amounts: Mapping[str, float], labels: Mapping[str, str]) -> bool:
    total, own = node["Resources"], node.get("Labels") or {}
    enough = all(total.get(name, 0) >= amount for name, amount in amounts.items())
    return enough and all(_selected(own.get(name), text) for name, text in labels.items())


def _selected(label: str | None, wanted: str) -> bool:
    """Whether a label fits: `value`, `!value`, `in(a, b)` or `!in(a, b)`."""
    negated, text = wanted.startswith("!"), wanted.removeprefix("!")
    inner = text.removeprefix("in(").removesuffix(")") if text.startswith("in(") else text
    return (label in [each.strip() for each in inner.split(",")]) != negated


def _shown(
    amounts: Mapping[str, float], labels: Mapping[str, str], only: Iterable[str] | None = None
) -> str:
    names = list(amounts if only is None else only)
    parts = [_amount(name, amounts.get(name, 0)) for name in names]
    return ", ".join([*parts, *(f"label {name}={text}" for name, text in labels.items())])


def _amount(name: str, amount: float) -> str:
    if name == "memory":
        return f"{round(amount / MB):,} MB of memory"
    unit = UNITS.get(name, f"of {name}")
    return f"{amount:g} {unit[:-1] if amount == 1 and name in UNITS else unit}"
