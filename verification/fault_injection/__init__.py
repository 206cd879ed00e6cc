"""Fault injection: real processes on a real store, injected faults, and a check of every guarantee.

`process_supervisor` starts processes, `injected_app` is their work, and `effect_record` records
the effects of that work outside the store. `fault_cells` combines one failpoint with one fault;
`chaos_run` runs a `cluster` with `load` and `cluster_faults`; `checker` compares what was observed
with the guarantees.
"""
