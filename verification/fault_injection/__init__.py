"""Torture: real processes on a real store, faults on purpose, and a check of every promise after.

The parts: `nursery` starts processes, `work` is what they do, `ledger` is what they did, outside
the store; `cells` is one failpoint and one fault, `cluster`, `load` and `faults` are a storm, and
`checker` holds what was seen against the promises.
"""
