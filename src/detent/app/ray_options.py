"""The option `ray` of an intent: what a run needs on a Ray cluster. Checked when it is declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from detent.errors import Invalid
from detent.kernel import document_fields

FIELDS = ("num_cpus", "num_gpus", "memory_mb", "resources", "label_selector", "runtime_env")
MAX_AMOUNT = 1_000_000
#: Names that Ray has options for.
OWN_RESOURCES = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory_mb"}
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class RayOptions:
    """What one run needs: amounts, labels of the node, and the environment of its process."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory_mb: int = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    label_selector: Mapping[str, str] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)

    def amounts(self) -> dict[str, float]:
        """The amounts by the names that Ray's nodes use."""
        own = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": float(self.memory_mb * MB)}
        return {name: amount for name, amount in {**own, **self.resources}.items() if amount}

    def of_task(self) -> dict[str, Any]:
        """The options of a Ray task."""
        given = {
            "memory": self.memory_mb * MB or None,
            "resources": dict(self.resources) or None,
            "label_selector": dict(self.label_selector) or None,
            "runtime_env": dict(self.runtime_env) or None,
        }
        present = {name: value for name, value in given.items() if value is not None}
        return {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus, **present}


def ray_options(given: object, where: str) -> RayOptions:
    """The checked option `ray`; Invalid names the field that is wrong."""
    named: dict[str, Any] = dict(document_fields.table(given, where, FIELDS))
    for name in ("num_cpus", "num_gpus"):
        if name in named:
            named[name] = _amount(named[name], f"{where}.{name}")
    if "memory_mb" in named:
        memory = f"{where}.memory_mb"
        named["memory_mb"] = document_fields.whole_number(named["memory_mb"], memory, 1, MAX_AMOUNT)
    if "resources" in named:
        named["resources"] = _resources(named["resources"], f"{where}.resources")
    if "label_selector" in named:
        named["label_selector"] = _labels(named["label_selector"], f"{where}.label_selector")
    if not isinstance(named.get("runtime_env", {}), Mapping):
        raise document_fields.wrong(f"{where}.runtime_env", "a table", named["runtime_env"])
    return RayOptions(**named)


def _amount(given: Any, where: str) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not 0 <= given <= MAX_AMOUNT:  # also refuses NaN
        raise document_fields.wrong(where, f"a number from 0 to {MAX_AMOUNT:,}", given)
    if given > 1 and given != int(given):
        raise document_fields.wrong(where, "a whole number if it is above 1, as Ray demands", given)
    return float(given)


def _resources(given: object, where: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise document_fields.wrong(where, 'a table of amounts, as in {"licence": 1}', given)
    for name in given:
        document_fields.text(name, where, 100)
        if name in OWN_RESOURCES:
            raise Invalid(
                f"{where}: write {name} as {OWN_RESOURCES[name]}.", field=where, given=name
            )
    return {name: _amount(amount, f"{where}.{name}") for name, amount in given.items()}


def _labels(given: object, where: str) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for pair in given.items() for text in pair
    ):
        raise document_fields.wrong(where, 'a table of strings, as in {"zone": "eu"}', given)
    return dict(given)
