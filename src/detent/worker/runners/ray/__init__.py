"""Execution on a Ray cluster: the runner, its connection, the submissions on the cluster."""
