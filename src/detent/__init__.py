"""detent: durable tasks, jobs and runs whose every change of state is an event in one log.

The public names are re-exported here; nothing is defined here.
"""
