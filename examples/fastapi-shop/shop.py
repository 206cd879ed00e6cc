"""A shop that stores an order and submits the task for its invoice in one PostgreSQL transaction.

detent's worker and keeper run inside this process. You can run more of them in other processes.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

import psycopg
import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from psycopg import Connection

from detent import intake_row
from detent.service import Service, open_core
from detent.settings_loader import load

DATABASE = os.environ["SHOP_DATABASE"]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    with psycopg.connect(DATABASE) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS orders (number serial PRIMARY KEY, item text)"
        )
    with open_core(load({"store_url": DATABASE})) as core:
        service = Service(core, gateway=False, apps=["work:app"])
        service.start()
        print("Ready", flush=True)
        try:
            yield
        finally:
            service.stop()  # running jobs finish, or are released for other workers


api = FastAPI(lifespan=lifespan)


def transaction() -> Iterator[Connection]:
    with psycopg.connect(DATABASE) as connection:  # commits at the end, or rolls back
        yield connection


Transaction = Annotated[Connection, Depends(transaction, scope="function")]


@api.post("/orders")
def take_order(item: str, shop: Transaction) -> dict[str, int]:
    row = shop.execute("INSERT INTO orders (item) VALUES (%s) RETURNING number", [item]).fetchone()
    assert row is not None
    key = f"order-{row[0]}"
    shop.execute(*intake_row("makeInvoice", {"order": row[0]}, idempotency_key=key, project="shop"))
    if item == "unicorn":
        raise HTTPException(409, "Sold out.")  # rolls back the order and the task
    return {"order": row[0]}


if __name__ == "__main__":
    uvicorn.run(api, host="127.0.0.1", port=int(os.environ.get("SHOP_PORT", "8000")))
