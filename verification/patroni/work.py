"""The app of the worker during failovers: `detent up --app verification.patroni.work:app`."""

from detent import App, Run

app = App()


@app.intent("count", retry={"retries": 20})
def count(run: Run, number: int) -> int:
    """Two durable steps, each of which is a commit."""
    first = run.step("first", lambda: number)
    return run.step("second", lambda: first + 1)
