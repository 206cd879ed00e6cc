"""A queue that the comparison must find fault with: it has leases, but no fences and no keys.

A job whose lease is over is claimed again, and every completion is believed.
"""

import sqlite3
import time
from typing import Any

from bench.compare.scripts import trial_job
from bench.compare.scripts.trial_job import Order, TrialJob

LEASE_S = 0.5
SCHEMA = """
    CREATE TABLE IF NOT EXISTS jobs (
        id INTEGER PRIMARY KEY, key TEXT, state TEXT DEFAULT 'queued', until REAL DEFAULT 0,
        result TEXT
    )
"""
CLAIM = """
    UPDATE jobs SET state = 'running', until = ?
    WHERE id = (SELECT id FROM jobs WHERE state <> 'done' AND until < ? ORDER BY id LIMIT 1)
    RETURNING id, key
"""


def opened(order: Order) -> sqlite3.Connection:
    database = sqlite3.connect(order.url, timeout=30, isolation_level=None)
    database.execute(SCHEMA)
    return database


def worker(order: Order) -> None:
    database, job = opened(order), TrialJob(order)
    while True:
        now = time.time()
        claimed = database.execute(CLAIM, (now + LEASE_S, now)).fetchall()
        for job_id, key in claimed:
            result = job.run(key)
            done = "UPDATE jobs SET state = 'done', result = ? WHERE id = ?"
            database.execute(done, (result, job_id))
        time.sleep(0.02)


def client(order: Order) -> None:
    database = opened(order)

    def submit(key: str) -> str:
        return str(database.execute("INSERT INTO jobs (key) VALUES (?)", (key,)).lastrowid)

    def state(job_id: str) -> dict[str, Any]:
        found = database.execute("SELECT state, result FROM jobs WHERE id = ?", (job_id,))
        text, result = found.fetchone()
        return trial_job.state(text == "done", text, result)

    trial_job.serve({"install": lambda: None, "submit": submit, "state": state})


trial_job.main(worker, client)
