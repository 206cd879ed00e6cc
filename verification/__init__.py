"""Verification of detent that runs from the repository and is not shipped.

Simulation, fault injection with real processes, power-loss images and model search. `./dev faults`
runs all of it in full.
"""
