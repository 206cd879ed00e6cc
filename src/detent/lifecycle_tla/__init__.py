"""Lifecycles of tasks as TLA+: export of a model, and a check of it by the model checker TLC."""

from detent.lifecycle_tla.bounds import Bounds
from detent.lifecycle_tla.export import configuration, export

__all__ = ["Bounds", "configuration", "export"]
