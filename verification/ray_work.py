"""The work of the node-kill test: an intent on Ray that writes down each of its executions."""

import os
import time

from detent import App, RayRun

app = App()


@app.intent("count", ray={"num_cpus": 1}, retry={"classes": {"lost": {"retries": 100}}})
def count(run: RayRun, n: int, log: str, seconds: float) -> list[int]:
    """Append a line to the log, work for a while, and return the number and the fence."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{run.job_id} {n}\n".encode())
    finally:
        os.close(descriptor)
    time.sleep(seconds)
    return [n, run.fence]
