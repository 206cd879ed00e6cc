"""A seeded simulation of the real engine on the real SQLite store, with an independent auditor.

`python -m detent.testing.simulation --seed N --steps M` runs one; the same seed is the same run.
"""

from detent.testing.simulation.mutants import MUTANTS
from detent.testing.simulation.outcome import FLOORS, Outcome
from detent.testing.simulation.run import simulate

__all__ = ["FLOORS", "MUTANTS", "Outcome", "simulate"]
