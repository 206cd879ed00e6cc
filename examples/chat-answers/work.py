"""A task that asks a question before it deploys."""

from detent import App, Run

app = App()


@app.intent("deploy")
def deploy(run: Run, version: str) -> str:
    if run.ask(f"Deploy {version}?", ["yes", "no"], timeout=86_400, default="no") == "yes":
        return f"{version} is live"
    return f"{version} was not deployed"
