"""A seeded simulation of the real engine on the real SQLite store, with an independent auditor.

`python -m verification.simulation --seed N --steps M` runs one; the same seed is the same run.
"""

from verification.simulation.mutants import MUTANTS
from verification.simulation.report import FLOORS, Outcome
from verification.simulation.simulation_run import simulate

__all__ = ["FLOORS", "MUTANTS", "Outcome", "simulate"]
