"""The background work of the shop: create the invoice of an order."""

from detent import App, Run

app = App()


@app.intent("makeInvoice", retry={"retries": 5})
def make_invoice(run: Run, order: int) -> str:
    number = run.step("number", lambda: f"2030-{order:04}")
    run.evidence("invoice.json", {"order": order, "invoice": number})
    return number
