"""The intents that the conformance tests of MCP tasks call as tools."""

from detent import App, Run

app = App()
ONCE = {"max_attempts": 1}


@app.intent("greet", tool="forbidden")
def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}!"


@app.intent("slow_compute", tool="optional")
def slow_compute(run: Run, seconds: float, label: str = "") -> str:
    """Wait, and return the label."""
    run.progress(0.5, f"computing {label}")
    if seconds:
        run.sleep(seconds)
    return f"{label} took {seconds} s"


@app.intent("failing_job", tool="required", retry=ONCE)
def failing_job() -> None:
    """Fail."""
    raise ValueError("this job always fails")


app.command("protocol_error_job", ["sleep", "60"], tool="optional", timeout_s=0.5, retry=ONCE)


@app.intent("confirm_delete", tool="optional")
def confirm_delete(run: Run, filename: str) -> str:
    """Delete a file, if a person agrees."""
    agreed = run.ask(f"Delete {filename}?", [True, False])
    return f"{filename} {'deleted' if agreed else 'kept'}"


@app.intent("ask_one")
def ask_one(run: Run, what: str) -> bool:
    """Ask one of two questions at the same time."""
    answer: bool = run.ask(f"{what}?", [True, False])
    return answer


app.intent(
    "multi_input",
    tool="optional",
    plan={
        "steps": [
            {"name": "first", "intent": "ask_one", "input": {"what": "first"}},
            {"name": "second", "intent": "ask_one", "input": {"what": "second"}},
        ]
    },
)(lambda: None)


@app.intent("test_tool_with_task", tool="required")
def tool_with_task(name: str) -> str:
    """Greet a person in a task."""
    return f"Hello, {name}!"


@app.intent("measure", tool="optional")
def measure(run: Run) -> None:
    """Leave a file."""
    run.evidence("numbers.json", {"size": 3})
