"""The Python API that people import: App, task types (intents), handles and the run context.

This package declares work and defines what a handler can do while it runs. It does not execute
anything: `worker/` imports it, and makes a runner for each handler that an app declares. So `app`
is below `worker` in the layers. What the run context needs of the worker (the current run, the
engine client) is declared as interfaces in `run_interface.py`.
"""
